"""Models on disk: a folder of safetensors, Parquet and JSON, never pickle.

``model.json`` names the other files and their SHA-256 and is replaced last, atomically. So a folder
holds a complete model at any time: the old one until the new one is complete. ``index.json`` does
the same for an index and names the vectors that it was built from. An index of other vectors than
those of the model counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping, Set
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from densirank._version import __version__
from densirank.data.interactions import Interactions
from densirank.data.vocabulary import Vocabulary
from densirank.errors import InputError, StorageError
from densirank.files import write_json, written_atomically
from densirank.filters.item_filter import FilterPart, FilterPartOnGPU, ItemFilter
from densirank.linalg.csr import PartSource, Rows, SparsePart
from densirank.linalg.sparse import narrow
from densirank.methods import method_named
from densirank.models.base import ItemSide
from densirank.ranking.index import KINDS, Measured, MeasuredIndex
from densirank.scores import Calibration, VectorScorer
from densirank.settings import Settings

FORMAT = "densirank-model"
FORMAT_VERSIONS = {
    1: "vectors, histories (items alone), the scores of the item–item filter",
    2: "what the scores of the filter are made of, in place of these scores",
    3: "the weights and timestamps of the histories; the fingerprint covers order and weights",
}
"""What each version of the format was the first to write; all are read."""
OLDEST_VERSION, FORMAT_VERSION = min(FORMAT_VERSIONS), max(FORMAT_VERSIONS)
MANIFEST = "model.json"
INDEX_FORMAT = "densirank-index"
INDEX_VERSION = 1
INDEX_MANIFEST = "index.json"
CHECKPOINT = "checkpoint.safetensors"
SPLIT_CHECKPOINT = "checkpoint"
"""The folder of a checkpoint written by several processes."""
TRAINING_LOG = "training.jsonl"
COLUMNS = ("weights", "timestamps")
"""Of the histories, if the data had them."""
CPU = torch.device("cpu")
_OWN_FILES = frozenset({MANIFEST, CHECKPOINT, SPLIT_CHECKPOINT, TRAINING_LOG})


@dataclass(frozen=True)
class StoredModel:
    """All parts of a fitted ranker."""

    method: str
    settings: Settings
    seed: int
    interactions: Interactions
    scorer: VectorScorer
    items: ItemSide
    parameters: dict[str, Tensor] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    calibration: Calibration | None = None
    vectors_sha256: str | None = None  # of the file it was read from


def prepare_folder(folder: Path, own: Set[str] = _OWN_FILES, what: str = "model") -> None:
    """Create the folder for a model; raise an error if it holds something else."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; a folder for the {what} was expected")
    if folder.is_dir():
        names = {entry.name for entry in folder.iterdir()}
        if names and not names & own:
            raise InputError(f"{folder} is not empty and holds no {what}; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)


def save_model(folder: Path, model: StoredModel) -> None:
    """Write a model; an older model in the folder stays complete until this one is."""
    from safetensors.torch import save_file

    prepare_folder(folder)
    data = model.interactions
    stored_as = _parameter_keys(model)
    tensors = _tensors(model, stored_as)
    files = {
        "vectors": write_file(folder, "vectors", ".safetensors", lambda p: save_file(tensors, p)),
        "users": write_file(folder, "users", ".parquet", lambda p: write_ids(p, data.user_ids)),
        "items": write_file(folder, "items", ".parquet", lambda p: write_ids(p, data.item_ids)),
    }
    manifest = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "densirank": __version__,
        "torch": torch.__version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "method": model.method,
        "settings": model.settings.to_json(),
        "seed": model.seed,
        "data": {
            "users": data.n_users,
            "items": data.n_items,
            "pairs": len(data),
            "ordered": data.ordered,
            "fingerprint": data.fingerprint,
            "pairs_fingerprint": data.pairs_fingerprint,
        },
        "parameters": stored_as,
        "training": model.training,
        "calibration": None if model.calibration is None else asdict(model.calibration),
        "files": files,
    }
    write_json(folder / MANIFEST, manifest)
    for pattern in ("vectors-*.safetensors", "users-*.parquet", "items-*.parquet", "index*"):
        _remove_others(folder, pattern, {str(entry["name"]) for entry in files.values()})


def save_calibration(folder: Path, calibration: Calibration) -> None:
    """Store a calibration with the model of a folder; the rest of the model stays as it is."""
    write_json(folder / MANIFEST, _read_manifest(folder) | {"calibration": asdict(calibration)})


def save_metrics(folder: Path, metrics: Mapping[str, Any]) -> None:
    """Store metrics with the model of a folder, for its model card."""
    write_json(folder / MANIFEST, _read_manifest(folder) | {"metrics": dict(metrics)})


def stored_metrics(folder: Path) -> dict[str, Any] | None:
    """The metrics that :func:`save_metrics` stored with the model of a folder."""
    metrics: dict[str, Any] | None = _read_manifest(folder).get("metrics")
    return metrics


def load_model(folder: Path, device: torch.device) -> StoredModel:
    """Read a model; raise an error if the folder is incomplete or damaged."""
    manifest = _read_manifest(folder)
    try:
        method = method_named(str(manifest["method"]))
        paths = {
            role: checked_file(folder, manifest["files"][role])
            for role in ("vectors", "users", "items")
        }
        tensors = _read_tensors(paths["vectors"])
        interactions = Interactions(
            indptr=tensors["history.indptr"].numpy(),
            items=tensors["history.items"].numpy(),
            user_ids=read_ids(paths["users"]),
            item_ids=read_ids(paths["items"]),
            timestamps=_column(tensors, "timestamps"),
            weights=_column(tensors, "weights"),
            ordered=bool(manifest["data"]["ordered"]),
        )
        _check_sizes(folder, tensors, interactions)
        items = _item_side(tensors, interactions, device)
        scorer = _scorer(tensors, items, device)
        stored_as: dict[str, str] = manifest.get("parameters", {})  # older models have none
        vectors = {"user_vectors": scorer.user_vectors, "item_vectors": scorer.item_vectors}
        calibration = manifest.get("calibration")
        return StoredModel(
            method=method.name,
            settings=method.settings(**method.own(manifest["settings"])),
            seed=int(manifest["seed"]),
            interactions=interactions,
            scorer=scorer,
            items=items,
            parameters={
                name: vectors[key] if key in vectors else tensors[key].to(device)
                for name, key in stored_as.items()
            },
            training=dict(manifest["training"]),
            calibration=None if calibration is None else Calibration(**calibration),
            vectors_sha256=str(manifest["files"]["vectors"]["sha256"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(
            f"{folder / MANIFEST} does not describe a model as version {FORMAT_VERSION} of the "
            f"format does ({type(error).__name__}: {error})"
        ) from error


def check_fitted_to(folder: Path, data: Interactions) -> None:
    """Raise an error if the model of a folder was fitted to other data."""
    manifest = _read_manifest(folder)
    older = manifest["version"] < FORMAT_VERSION  # its fingerprint is that of the pairs
    if manifest["data"]["fingerprint"] != (data.pairs_fingerprint if older else data.fingerprint):
        raise InputError(
            f"{folder} holds a finished model of other interactions, or of another order or other "
            "weights: choose another folder, or leave --resume out to fit anew"
        )


def save_index(folder: Path, built: MeasuredIndex) -> None:
    """Store an index with the model that it was built from."""
    file = write_file(folder, "index", built.index.suffix, built.index.save)
    manifest = {
        "format": INDEX_FORMAT,
        "version": INDEX_VERSION,
        "densirank": __version__,
        "vectors": _read_manifest(folder)["files"]["vectors"]["sha256"],
        "measured": asdict(built.measured),
        "file": file,
    }
    write_json(folder / INDEX_MANIFEST, manifest)
    _remove_others(folder, "index-*", {str(file["name"])})


def read_index_manifest(folder: Path, vectors: str) -> dict[str, Any] | None:
    """The manifest of the index of the vectors with this SHA-256, None if there is none."""
    path = folder / INDEX_MANIFEST
    if not path.exists():
        return None
    manifest = read_json(path, INDEX_FORMAT, INDEX_VERSION)
    return manifest if manifest.get("vectors") == vectors else None


def load_index(folder: Path, vectors: str, scorer: VectorScorer) -> MeasuredIndex | None:
    """The index of the vectors with this SHA-256, None if there is none."""
    manifest = read_index_manifest(folder, vectors)
    if manifest is None:
        return None
    try:
        measured = Measured(**manifest["measured"])
        path = checked_file(folder, manifest["file"])
        index = KINDS[measured.kind].load(path, scorer.item_vectors.cpu().float())
    except (KeyError, TypeError) as error:
        message = f"{folder / INDEX_MANIFEST} does not describe an index ({error})"
        raise StorageError(message) from error
    index.effort = measured.effort
    return MeasuredIndex(index, measured)


def model_fingerprint(folder: Path) -> str:
    """The SHA-256 of the manifest, which differs for every other model in the folder."""
    _read_manifest(folder)
    return _sha256(folder / MANIFEST)


def _parameter_keys(model: StoredModel) -> dict[str, str]:
    """The key of each parameter in the file: vectors that are parameters are written once."""
    vectors = {
        model.scorer.user_vectors.data_ptr(): "user_vectors",
        model.scorer.item_vectors.data_ptr(): "item_vectors",
    }
    return {
        name: vectors.get(value.data_ptr(), f"parameter.{name}")
        for name, value in model.parameters.items()
    }


def _tensors(model: StoredModel, stored_as: Mapping[str, str]) -> dict[str, Tensor]:
    """All tensors of a model by their keys in the file."""
    scorer, items = model.scorer, model.items
    tensors = {
        "user_vectors": scorer.user_vectors,
        "item_vectors": scorer.item_vectors,
        "history.indptr": torch.from_numpy(model.interactions.indptr.copy()),
        "history.items": torch.from_numpy(model.interactions.items.copy()),
        "items.counts": torch.from_numpy(items.counts.copy()),
    }
    for name, column in _columns(model.interactions).items():
        tensors[f"history.{name}"] = torch.from_numpy(column)
    if items.messages is not None:
        tensors["items.messages"] = items.messages
    tensors |= {key: model.parameters[name] for name, key in stored_as.items()}
    parts = {
        "sparse": scorer.sparse_part if isinstance(scorer.sparse_part, SparsePart) else None,
        "neighbours": scorer.neighbours,
        "filter": None if items.near is None else SparsePart.of(items.near, CPU),
    }
    if isinstance(scorer.sparse_part, FilterPart | FilterPartOnGPU):
        parts["had"], tensors["had.scale"] = scorer.sparse_part.to_keep()
    for name, part in parts.items():
        if part is not None:
            tensors |= {
                f"{name}.indptr": part.rows.indptr,
                f"{name}.columns": part.rows.columns.to(torch.int32),
                f"{name}.values": part.values,
            }
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _columns(data: Interactions) -> dict[str, NDArray[Any]]:
    """Copies of the columns beside the pairs, in types that a tensor can have."""
    columns = {}
    if data.weights is not None:
        columns["weights"] = data.weights.astype(np.float32)
    if data.timestamps is not None:
        times = data.timestamps
        whole = times.dtype.kind in "iu" and times.max() <= np.iinfo(np.int64).max
        columns["timestamps"] = times.astype(np.int64 if whole else np.float64)
    return columns


def _column(tensors: Mapping[str, Tensor], name: str) -> NDArray[Any] | None:
    column = tensors.get(f"history.{name}")
    return None if column is None else column.numpy()


def _item_side(tensors: Mapping[str, Tensor], data: Interactions, device: torch.device) -> ItemSide:
    near, messages = _sparse_part(tensors, "filter", CPU), tensors.get("items.messages")
    return ItemSide(
        tensors["items.counts"].numpy() if "items.counts" in tensors else data.item_counts,
        None if messages is None else messages.to(device),
        None if near is None else narrow(near.to_scipy(data.n_items)),
    )


def _scorer(tensors: Mapping[str, Tensor], items: ItemSide, device: torch.device) -> VectorScorer:
    """The scorer; the part of the item–item filter is made of the histories and the neighbours."""
    part: PartSource | None = _sparse_part(tensors, "sparse", device)
    had = _sparse_part(tensors, "had", CPU)
    if had is not None:
        made = ItemFilter(narrow(had.to_scipy(len(items.counts))), items.near, device)
        part = made.part(tensors["had.scale"].to(device))
    return VectorScorer(
        tensors["user_vectors"].to(device),
        tensors["item_vectors"].to(device),
        part,
        _sparse_part(tensors, "neighbours", device),
    )


def _sparse_part(
    tensors: Mapping[str, Tensor], name: str, device: torch.device
) -> SparsePart | None:
    if f"{name}.values" not in tensors:
        return None
    columns = tensors[f"{name}.columns"].to(device, torch.int64)
    rows = Rows(tensors[f"{name}.indptr"].to(device), columns)
    return SparsePart(rows, tensors[f"{name}.values"].to(device))


def write_file(
    folder: Path, role: str, suffix: str, write: Callable[[Path], None]
) -> dict[str, str | int]:
    """Write a file under a new name, so that it replaces no file in use; its manifest entry."""
    path = folder / f"{role}-{secrets.token_hex(6)}{suffix}"
    with written_atomically(path) as temporary:
        write(temporary)
    return {"name": path.name, "sha256": _sha256(path), "bytes": path.stat().st_size}


def _remove_others(folder: Path, pattern: str, current: Set[str]) -> None:
    """Delete the files of a pattern that belong to a replaced model or index."""
    for path in folder.glob(pattern):
        if path.name not in current:
            path.unlink()


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not folder.exists():
        raise StorageError(f"there is no folder {folder}")
    if not folder.is_dir():
        raise StorageError(f"{folder} is a file; the folder of a model was expected")
    if not path.exists():
        hint = ""
        if (folder / CHECKPOINT).exists():
            hint = ": training was not finished; finish it with 'densirank fit … --resume'"
        raise StorageError(f"{folder} holds no model (no {MANIFEST}){hint}")
    return read_json(path, FORMAT, FORMAT_VERSION, OLDEST_VERSION)


def read_json(path: Path, kind: str, version: int, oldest: int | None = None) -> dict[str, Any]:
    """Read a JSON manifest of a format; its version is checked."""
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise StorageError(f"{path} is damaged: it is not JSON ({error})") from error
    if not isinstance(manifest, dict) or manifest.get("format") != kind:
        raise StorageError(f"{path} does not describe a {kind.replace('-', ' ')}")
    oldest = version if oldest is None else oldest
    if manifest.get("version") not in range(oldest, version + 1):
        versions = f"version {version}" if oldest == version else f"versions {oldest} to {version}"
        raise StorageError(
            f"{path} has format version {manifest.get('version')}; this densirank "
            f"({__version__}) reads {versions}: upgrade densirank"
        )
    return manifest


def checked_file(folder: Path, entry: Mapping[str, Any], what: str = "model") -> Path:
    """The path of a file in a manifest; an error if it is missing or damaged."""
    name = str(entry["name"])
    path = folder / name
    if Path(name).name != name:
        raise StorageError(f"the {what} in {folder} names a file outside its folder: {name}")
    if not path.is_file():
        raise StorageError(f"{folder} is incomplete: {name} is missing")
    if path.stat().st_size != entry["bytes"] or _sha256(path) != entry["sha256"]:
        raise StorageError(f"{path} is damaged: it is not the file the {what} was saved with")
    return path


def _check_sizes(folder: Path, tensors: Mapping[str, Tensor], data: Interactions) -> None:
    users, items = tensors["user_vectors"], tensors["item_vectors"]
    agree = (
        users.shape == (data.n_users, items.shape[1])
        and len(items) == data.n_items
        and len(data.indptr) == data.n_users + 1
        and data.indptr[-1] == len(data.items)
        and all(len(tensors.get(f"history.{k}", data.items)) == len(data.items) for k in COLUMNS)
        and all(len(tensors.get(f"items.{k}", items)) == len(items) for k in ("counts", "messages"))
    )
    if not agree:
        raise StorageError(f"the files in {folder} do not belong together: their sizes differ")


def _read_tensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(path))
    except SafetensorError as error:
        raise StorageError(f"{path} is not a readable safetensors file ({error})") from error


def write_ids(path: Path, vocabulary: Vocabulary) -> None:
    """Write the ids as one column; the row of an id is its index."""
    import polars as pl

    kind = pl.String if vocabulary.is_text else pl.Int64
    pl.DataFrame({"id": pl.Series(vocabulary.ids, dtype=kind)}).write_parquet(path)


def read_ids(path: Path, first: int = 0, count: int | None = None) -> Vocabulary:
    """Read the ids that :func:`write_ids` wrote, or a range of them."""
    import polars as pl

    ids = pl.scan_parquet(path, glob=False).slice(first, count).collect()["id"]
    return Vocabulary.from_sorted(ids.to_numpy().copy())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
