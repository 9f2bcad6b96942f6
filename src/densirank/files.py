"""Files: written atomically, and opened with clear error messages."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from densirank.errors import InputError


@contextmanager
def written_atomically(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder that replaces ``path`` when the block ends well.

    The bytes are on disk before the name changes, so that neither a crash nor a power cut leaves
    part of a file under the final name.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON, atomically."""
    with written_atomically(path) as temporary:
        text = json.dumps(value, indent=2, ensure_ascii=False)
        temporary.write_text(f"{text}\n", encoding="utf-8")


def check_file(path: Path) -> None:
    """Raise an error if a path is no file, or an empty one."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; a file was expected")
    if not path.exists():
        raise InputError(f"there is no file {path}")
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(f"{path} is empty")


@contextmanager
def open_file(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file, decompressed if its name ends in ``.gz``; errors are InputErrors."""
    check_file(path)
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as stream:
            yield cast(BinaryIO, stream)
    except EOFError as error:
        raise InputError(f"{path} is cut short: its gzip data has no end") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path} is not a valid gzip file") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
