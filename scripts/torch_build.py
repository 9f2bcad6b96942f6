"""Choose the build of torch for this machine, before anything else is installed.

torch's default wheel for Linux carries CUDA: gigabytes of libraries that a machine without an
NVIDIA driver cannot use. The CPU build is the same version with the local label ``+cpu`` and comes
from torch's own package index. Where it suits, this script installs it into the environment of the
Python that runs it; otherwise it installs nothing, and torch is left to pip, as any dependency.
Only the standard library is used.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

BUILDS = ("cpu", "default")
BUILD_VARIABLE = "TORCH"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
INDEX_VARIABLE = "DENSIRANK_TORCH_CPU_INDEX"
"""Names another index of CPU builds: a mirror's address, or one on this machine in tests."""
PATIENCE = 3.0
"""Seconds the index has to answer, name resolution and TLS included."""
DRIVER = "libcuda.so.1"
CONSTRAINTS = Path(__file__).resolve().parents[1] / "constraints.txt"


def pinned_version() -> str:
    """The version of torch in constraints.txt."""
    pin = re.search(r"^torch==(\S+)$", CONSTRAINTS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    if pin is None:
        sys.exit(f"{CONSTRAINTS} has no line torch==VERSION")
    return pin[1]


def installed_version() -> str:
    """The version of torch in this environment, or an empty string."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return ""


def has_nvidia_driver() -> bool:
    """Whether the driver's library can be loaded, which is what torch's CUDA build will ask for."""
    try:
        ctypes.CDLL(DRIVER)
    except OSError:
        return False
    return True


def why_unreachable(index: str, patience: float = PATIENCE) -> str:
    """Why an index cannot be used, or an empty string if it answers.

    A thread asks, because no timeout of a socket covers name resolution or an answer that comes
    one byte at a time. Where it is still waiting at the end of ``patience``, it is abandoned.
    """
    problem = f"did not answer within {patience:g} s"
    answers: list[str] = []

    def ask() -> None:
        try:
            with urllib.request.urlopen(f"{index}/torch/", timeout=patience):
                answers.append("")
        except urllib.error.HTTPError as error:
            error.close()
            answers.append(f"answered with status {error.code}")
        except Exception as error:
            cause = getattr(error, "reason", error)
            answers.append(problem if isinstance(cause, TimeoutError) else f"failed: {cause}")

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(patience)
    return answers[0] if answers else problem


def install_cpu_build(pin: str, index: str) -> bool:
    """Install exactly ``pin+cpu`` and say whether that worked.

    The local label is named, because without it pip would take the highest that any configured
    source offers, and ``+cu130`` sorts above ``+cpu``. Dependencies are left to the next step: this
    index has old versions of them.
    """
    # fmt: off
    pip = [
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        "--no-deps", "--index-url", index, "--timeout", "15", "--retries", "1",
        f"torch=={pin}+cpu",
    ]
    # fmt: on
    return subprocess.run(pip, check=False).returncode == 0


def main() -> int:
    """Decide, say so in one line, and install the CPU build where it was chosen."""
    wish = os.environ.get(BUILD_VARIABLE, "")
    if wish and wish not in BUILDS:
        print(f"{BUILD_VARIABLE} must be cpu or default, not {wish!r}", file=sys.stderr)
        return 2
    index = os.environ.get(INDEX_VARIABLE, CPU_INDEX).rstrip("/")
    if not index.startswith(("https://", "http://")):
        print(f"{INDEX_VARIABLE} must be an http(s) address, not {index!r}", file=sys.stderr)
        return 2

    pin, present = pinned_version(), installed_version()
    if present.split("+")[0] == pin:
        print(f"torch {present} is already installed and is kept")
        return 0

    by_pip = f"torch {pin}: pip chooses the build"
    if wish == "default":
        print(f"{by_pip} ({BUILD_VARIABLE}=default)")
    elif sys.platform != "linux":
        print(f"{by_pip} (only Linux has a smaller one)")
    elif not wish and has_nvidia_driver():
        print(f"{by_pip} (this machine has an NVIDIA driver)")
    else:
        why = f"{BUILD_VARIABLE}=cpu" if wish else "no NVIDIA driver"
        problem = why_unreachable(index)
        if not problem:
            print(f"torch {pin}: the CPU build from {index} ({why})", flush=True)
            problem = "" if install_cpu_build(pin, index) else "has no build that pip can install"
        if problem:
            large = "usually the one with CUDA, 5 GB installed"
            print(f"{by_pip}, {large} ({why}, but {index} {problem})")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
