"""An index on disk, with the model it was built from.

``index.json`` names the index's file, its SHA-256 and the vectors it was built from, and is
replaced last. An index of other vectors than the model's is never used: it counts as absent.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from densirank._version import __version__
from densirank.errors import StorageError
from densirank.files import written_atomically
from densirank.ranking.index import KINDS, Measured, MeasuredIndex
from densirank.scores import VectorScorer
from densirank.storage import checked_file, read_json, vectors_sha256, write_file

FORMAT = "densirank-index"
FORMAT_VERSION = 1
MANIFEST = "index.json"


def save_index(folder: Path, built: MeasuredIndex) -> None:
    """Put an index beside the model it was built from."""
    index = built.index
    file = write_file(folder, "index", index.suffix, index.save)
    manifest = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "densirank": __version__,
        "vectors": vectors_sha256(folder),
        "measured": asdict(built.measured),
        "file": file,
    }
    with written_atomically(folder / MANIFEST) as temporary:
        temporary.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    for path in folder.glob("index-*"):
        if path.name != file["name"]:
            path.unlink()


def describe_index(folder: Path, vectors: str) -> dict[str, Any] | None:
    """What is written of the folder's index of the vectors with this SHA-256, if it has one."""
    path = folder / MANIFEST
    if not path.exists():
        return None
    manifest = read_json(path, FORMAT, FORMAT_VERSION)
    return manifest if manifest.get("vectors") == vectors else None


def load_index(folder: Path, vectors: str, scorer: VectorScorer) -> MeasuredIndex | None:
    """The folder's index of the vectors with this SHA-256, if it has one."""
    manifest = describe_index(folder, vectors)
    if manifest is None:
        return None
    try:
        measured = Measured(**manifest["measured"])
        path = checked_file(folder, manifest["file"])
        index = KINDS[measured.kind].load(path, scorer.item_vectors.cpu().float())
    except (KeyError, TypeError) as error:
        raise StorageError(f"{folder / MANIFEST} does not describe an index ({error})") from error
    index.effort = measured.effort
    return MeasuredIndex(index, measured)
