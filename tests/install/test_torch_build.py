"""Which build of torch is installed, and what pip really installs for it.

The indexes are served on this machine, and hold empty wheels.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import venv
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest

import torch_build

PIN = torch_build.pinned_version()
SLACK = 10.0
"""Seconds that a busy machine may add to anything."""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def _add_wheel(folder: Path, version: str) -> None:
    """A wheel of torch without torch in it, and the page of the index that lists it."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"torch-{version}.dist-info"
    name = f"torch-{version}-py3-none-any.whl"
    with zipfile.ZipFile(folder / name, "w") as wheel:
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    with (folder / "index.html").open("a") as page:
        page.write(f'<a href="{quote(name)}">{name}</a>\n')


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Indexes: cpu/ has the CPU build, pypi/ others of the same version, bare/ no suitable one."""
    folder = tmp_path_factory.mktemp("indexes")
    _add_wheel(folder / "cpu" / "torch", f"{PIN}+cpu")
    _add_wheel(folder / "pypi" / "torch", PIN)
    _add_wheel(folder / "pypi" / "torch", f"{PIN}+cu130")
    _add_wheel(folder / "bare" / "torch", "1.0+cpu")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with pip alone."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True, symlinks=True)
    return folder


@pytest.fixture
def installed(
    environment: Path, served: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], list[str]]]:
    """A machine with neither a driver nor torch; says which versions of torch pip installed."""
    for name in [name for name in os.environ if name.upper().startswith(("PIP_", "HTTP"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"{served}/pypi")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"{served}/pypi")
    monkeypatch.delenv(torch_build.BUILD_VARIABLE, raising=False)
    monkeypatch.setenv(torch_build.INDEX_VARIABLE, f"{served}/cpu")
    monkeypatch.setattr(sys, "executable", str(environment / "bin" / "python"))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(torch_build, "has_nvidia_driver", lambda: False)
    monkeypatch.setattr(torch_build, "installed_version", lambda: "")

    def infos() -> list[Path]:
        return list(environment.glob("lib/python3*/site-packages/torch-*.dist-info"))

    yield lambda: [info.name[len("torch-") : -len(".dist-info")] for info in infos()]
    for info in infos():
        shutil.rmtree(info)


def _pip(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *words], check=True)


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def endless() -> Iterator[str]:
    """An address whose answer never ends: every byte is in time for a socket's own timeout."""
    over = threading.Event()

    class Drip(_Quiet):
        def do_GET(self) -> None:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
            while not over.wait(0.05):
                self.wfile.write(b"x")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Drip)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    over.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_without_a_driver_pip_installs_exactly_the_cpu_build(
    installed: Callable[[], list[str]], served: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert torch_build.main() == 0
    assert installed() == [f"{PIN}+cpu"]
    assert capsys.readouterr().out == (
        f"torch {PIN}: the CPU build from {served}/cpu (no NVIDIA driver)\n"
    )


def test_the_next_step_of_the_install_keeps_the_cpu_build(
    installed: Callable[[], list[str]],
) -> None:
    torch_build.main()
    _pip("install", "--constraint", str(torch_build.CONSTRAINTS), "torch>=2.9")
    assert installed() == [f"{PIN}+cpu"]


def test_without_the_local_label_pip_would_take_another_build(
    installed: Callable[[], list[str]], served: str
) -> None:
    _pip("install", "--no-deps", "--index-url", f"{served}/cpu", f"torch=={PIN}")
    assert installed() == [f"{PIN}+cu130"]


def test_with_a_driver_torch_is_left_to_pip(
    installed: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(torch_build, "has_nvidia_driver", lambda: True)
    assert torch_build.main() == 0
    assert installed() == []
    assert capsys.readouterr().out == (
        f"torch {PIN}: pip chooses the build (this machine has an NVIDIA driver)\n"
    )


def test_the_variable_decides_against_the_driver(
    installed: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TORCH", "default")
    assert torch_build.main() == 0
    assert installed() == []
    assert "(TORCH=default)" in capsys.readouterr().out

    monkeypatch.setattr(torch_build, "has_nvidia_driver", lambda: True)
    monkeypatch.setenv("TORCH", "cpu")
    assert torch_build.main() == 0
    assert installed() == [f"{PIN}+cpu"]
    assert "(TORCH=cpu)" in capsys.readouterr().out


def test_other_systems_have_one_build(
    installed: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert torch_build.main() == 0
    assert installed() == []
    assert "(only Linux has a smaller one)" in capsys.readouterr().out


@pytest.mark.parametrize("wish", ["", "cpu", "default"])
@pytest.mark.parametrize("present", [PIN, f"{PIN}+cpu", f"{PIN}+cu130"])
def test_an_installed_torch_of_the_right_version_is_kept(
    installed: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    present: str,
    wish: str,
) -> None:
    monkeypatch.setenv("TORCH", wish)
    monkeypatch.setattr(torch_build, "installed_version", lambda: present)
    assert torch_build.main() == 0
    assert installed() == []
    assert capsys.readouterr().out == f"torch {present} is already installed and is kept\n"


def test_an_installed_torch_of_another_version_is_replaced(
    installed: Callable[[], list[str]], served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pip("install", "--no-deps", "--index-url", f"{served}/bare", "torch==1.0+cpu")
    monkeypatch.setattr(torch_build, "installed_version", lambda: "1.0+cpu")
    assert torch_build.main() == 0
    assert installed() == [f"{PIN}+cpu"]


def test_an_index_without_the_version_leaves_torch_to_pip(
    installed: Callable[[], list[str]],
    served: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(torch_build.INDEX_VARIABLE, f"{served}/bare")
    assert torch_build.main() == 0
    assert installed() == []
    first, second = capsys.readouterr().out.splitlines()
    assert "the CPU build" in first
    assert "pip chooses the build, usually the one with CUDA" in second
    assert f"but {served}/bare has no build that pip can install" in second


@pytest.mark.parametrize("wish", ["", "cpu"])
def test_an_index_that_refuses_leaves_torch_to_pip(
    installed: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    wish: str,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = f"http://127.0.0.1:{listener.getsockname()[1]}"
    monkeypatch.setenv("TORCH", wish)
    monkeypatch.setenv(torch_build.INDEX_VARIABLE, closed)
    assert torch_build.main() == 0
    assert installed() == []
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert "pip chooses the build, usually the one with CUDA" in said
    assert f"but {closed} failed: " in said
    assert ("TORCH=cpu" if wish else "no NVIDIA driver") in said


def test_an_index_that_answers_with_an_error_is_not_used(served: str) -> None:
    assert torch_build.why_unreachable(f"{served}/none") == "answered with status 404"


@pytest.mark.parametrize("address", ["silent", "endless"])
def test_an_index_that_never_answers_costs_bounded_time(
    address: str, request: pytest.FixtureRequest
) -> None:
    started = time.monotonic()
    problem = torch_build.why_unreachable(request.getfixturevalue(address), patience=0.5)
    assert problem == "did not answer within 0.5 s"
    assert time.monotonic() - started < 0.5 + SLACK


def test_a_name_that_is_never_resolved_costs_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over = threading.Event()

    def resolve(*words: object, **options: object) -> list[object]:
        over.wait(60)
        raise OSError("too late")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    started = time.monotonic()
    problem = torch_build.why_unreachable("http://index.invalid", patience=0.5)
    over.set()
    assert problem == "did not answer within 0.5 s"
    assert time.monotonic() - started < 0.5 + SLACK


def _run(**variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, torch_build.__file__],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_build_of_another_name_is_refused() -> None:
    run = _run(TORCH="gpu")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "TORCH must be cpu or default, not 'gpu'\n"


def test_an_index_must_have_an_address() -> None:
    run = _run(**{torch_build.INDEX_VARIABLE: "some/folder"})
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == (
        "DENSIRANK_TORCH_CPU_INDEX must be an http(s) address, not 'some/folder'\n"
    )


def test_the_script_ends_although_its_question_is_still_open(silent: str, tmp_path: Path) -> None:
    """The whole script, on a Python that has no torch, asks for three seconds and ends."""
    venv.create(tmp_path, with_pip=False, symlinks=True)
    started = time.monotonic()
    run = subprocess.run(
        [tmp_path / "bin" / "python", torch_build.__file__],
        env={**os.environ, "TORCH": "cpu", torch_build.INDEX_VARIABLE: silent},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0
    assert f"(TORCH=cpu, but {silent} did not answer within 3 s)" in run.stdout
    assert time.monotonic() - started < torch_build.PATIENCE + SLACK


@pytest.mark.skipif(sys.platform != "linux", reason="the driver's library has Linux's name")
def test_a_driver_is_a_library_that_can_be_loaded(tmp_path: Path) -> None:
    """Any library under the driver's name does, where the loader looks first."""
    import _ctypes

    shutil.copy(_ctypes.__file__, tmp_path / torch_build.DRIVER)
    run = subprocess.run(
        [sys.executable, "-c", "import torch_build; print(torch_build.has_nvidia_driver())"],
        env={
            **os.environ,
            "LD_LIBRARY_PATH": str(tmp_path),
            "PYTHONPATH": str(Path(torch_build.__file__).parent),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "True\n"
