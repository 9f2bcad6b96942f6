"""Models on disk: what is saved comes back, and what is broken is refused in a sentence."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from densirank import Interactions, Ranker, load, storage
from densirank.errors import InputError, StorageError
from densirank.linalg.csr import Rows, SparsePart
from densirank.scores import Calibration

PAIRS = [(f"u{u}", f"i{i}") for u in range(6) for i in range(8) if (u + i) % 3]


@pytest.fixture
def ranker() -> Ranker:
    return Ranker("pde-mf", device="cpu", dim=4, iterations=5, max_norm=None, seed=7).fit(PAIRS)


@pytest.fixture
def folder(ranker: Ranker, tmp_path: Path) -> Path:
    ranker.save(tmp_path / "model")
    return tmp_path / "model"


def edit_manifest(folder: Path, **changes: Any) -> None:
    path = folder / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_what_is_saved_comes_back(ranker: Ranker, folder: Path) -> None:
    back = load(folder, "cpu")
    assert back.recommend(k=8).equals(ranker.recommend(k=8))
    assert (back.settings, back.settings_) == (ranker.settings, ranker.settings_)
    assert (back.seed, back.method) == (7, ranker.method)
    assert back.interactions_.fingerprint == ranker.interactions_.fingerprint
    assert back.training_ == ranker.training_


def test_a_calibration_comes_back_and_may_be_put_into_a_folder_later(
    ranker: Ranker, folder: Path, tmp_path: Path
) -> None:
    assert load(folder, "cpu").calibration_ is None
    ranker.calibration_ = Calibration(1.3, -0.2, held_out_items=7, gain=0.5)
    ranker.save(tmp_path / "calibrated")
    storage.save_calibration(folder, ranker.calibration_)
    for place in (tmp_path / "calibrated", folder):
        back = load(place, "cpu")
        assert back.calibration_ == ranker.calibration_
        assert back.recommend(k=8).equals(ranker.recommend(k=8))


def test_a_folder_from_before_calibration_loads(ranker: Ranker, folder: Path) -> None:
    path = folder / "model.json"
    manifest = json.loads(path.read_text())
    del manifest["calibration"]
    path.write_text(json.dumps(manifest))
    assert load(folder, "cpu").recommend(k=8).equals(ranker.recommend(k=8))


@pytest.mark.parametrize("damaged", [{"temperature": -1.0}, {"warmth": 2.0}, {"temperature": "a"}])
def test_a_calibration_that_is_none_is_refused(folder: Path, damaged: dict[str, object]) -> None:
    edit_manifest(folder, calibration=damaged)
    with pytest.raises(StorageError, match="does not describe a model"):
        load(folder, "cpu")


def test_order_and_integer_ids_come_back(tmp_path: Path) -> None:
    frame = Ranker("wd-lgcn", device="cpu", dim=2, iterations=2).fit([(5, 30), (5, 10), (9, 10)])
    frame.interactions_ = replace(frame.interactions_, ordered=True)
    frame.save(tmp_path)
    back = load(tmp_path, "cpu").interactions_
    assert back.ordered
    assert list(back.pairs()) == [(5, 30), (5, 10), (9, 10)]


@pytest.mark.filterwarnings("ignore:popularity counts every pair alike")
@pytest.mark.parametrize("kind", [np.int64, np.float32, np.uint16, np.uint64, ">i4"])
def test_weights_and_times_come_back(tmp_path: Path, kind: Any) -> None:
    times = np.array([3, 1, 2], dtype=kind)
    data = Interactions.from_pairs([5, 5, 9], [30, 10, 10], times, [2.5, 1, 4])
    Ranker("popularity", device="cpu").fit(data).save(tmp_path)
    back = load(tmp_path, "cpu").interactions_
    assert back.fingerprint == data.fingerprint
    assert back.weights is not None
    assert back.timestamps is not None
    assert back.weights.tolist() == [1, 2.5, 4]
    assert back.timestamps.tolist() == [1, 3, 2]
    assert back.ordered
    manifest = json.loads((tmp_path / "model.json").read_text())
    assert manifest["version"] == storage.FORMAT_VERSION == 3
    assert manifest["data"]["fingerprint"] == data.fingerprint
    assert manifest["data"]["pairs_fingerprint"] == data.pairs_fingerprint


@pytest.mark.parametrize("version", [1, 2])
def test_models_without_weights_and_times_load(folder: Path, version: int) -> None:
    edit_manifest(folder, version=version)
    back = load(folder, "cpu").interactions_
    assert (back.weights, back.timestamps) == (None, None)


@pytest.mark.filterwarnings("ignore:popularity counts every pair alike")
@pytest.mark.parametrize("name", ["history.weights", "history.timestamps", "history.items"])
def test_histories_of_different_lengths_do_not_belong_together(tmp_path: Path, name: str) -> None:
    data = Interactions.from_pairs([5, 5, 9], [30, 10, 10], [3, 1, 2], [2.5, 1, 4])
    Ranker("popularity", device="cpu").fit(data).save(tmp_path)
    (path,) = tmp_path.glob("vectors-*")
    tensors = load_file(path)
    tensors[name] = tensors[name][:-1].clone()
    save_file(tensors, path)
    manifest = json.loads((tmp_path / "model.json").read_text())
    manifest["files"]["vectors"] |= {
        "sha256": storage._sha256(path),
        "bytes": path.stat().st_size,
    }
    edit_manifest(tmp_path, files=manifest["files"])
    with pytest.raises(StorageError, match="do not belong together"):
        load(tmp_path)


def test_a_sparse_part_comes_back(ranker: Ranker, tmp_path: Path) -> None:
    rows = Rows(torch.tensor([0, 2, 2, 2, 2, 2, 3]), torch.tensor([1, 4, 0]))
    ranker.scorer_ = replace(
        ranker.scorer_, sparse_part=SparsePart(rows, torch.tensor([3.0, -1.0, 2.0]))
    )
    ranker.save(tmp_path)
    everyone = torch.arange(6)
    assert torch.equal(
        load(tmp_path, "cpu").scorer_.scores(everyone), ranker.scorer_.scores(everyone)
    )


def test_a_filter_is_kept_as_what_it_is_made_of(tmp_path: Path) -> None:
    ranker = Ranker("popularity", device="cpu", filter_weight=2.0).fit(PAIRS)
    ranker.save(tmp_path)
    (vectors,) = tmp_path.glob("*.safetensors")
    assert not [name for name in load_file(vectors) if name.startswith("sparse.")]
    assert load(tmp_path, "cpu").recommend(k=8).equals(ranker.recommend(k=8))


def test_an_older_model_with_the_filters_scores_of_everybody_is_still_read(tmp_path: Path) -> None:
    ranker = Ranker("popularity", device="cpu", filter_weight=2.0).fit(PAIRS)
    made = ranker.scorer_
    ranker.scorer_ = replace(made, sparse_part=made.kept_part())
    ranker.save(tmp_path)
    (vectors,) = tmp_path.glob("*.safetensors")
    assert "sparse.values" in load_file(vectors)
    edit_manifest(tmp_path, version=1)
    old = load(tmp_path, "cpu")
    everyone = torch.arange(6)
    torch.testing.assert_close(old.scorer_.scores(everyone), made.scores(everyone))
    assert isinstance(old.scorer_.sparse_part, SparsePart)


def test_no_file_of_a_model_is_a_pickle(folder: Path) -> None:
    suffixes = {path.suffix for path in folder.iterdir()}
    assert suffixes == {".json", ".safetensors", ".parquet"}
    (vectors,) = folder.glob("*.safetensors")
    assert set(load_file(vectors)) == {
        "user_vectors",
        "item_vectors",
        "history.indptr",
        "history.items",
        "items.counts",
    }  # the parameters of matrix factorisation are the vectors: they are not written twice


def test_saving_again_replaces_the_model_and_leaves_nothing_behind(
    ranker: Ranker, folder: Path
) -> None:
    other = Ranker("popularity", device="cpu").fit(PAIRS)
    other.save(folder)
    assert load(folder).method == "popularity"
    assert len(list(folder.iterdir())) == 4


def test_a_save_that_fails_half_way_keeps_the_old_model(
    ranker: Ranker, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(path: Path, vocabulary: object) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "write_ids", full_disk)
    with pytest.raises(OSError, match="No space left"):
        Ranker("popularity", device="cpu").fit(PAIRS).save(folder)
    assert load(folder).method == "pde-mf"
    assert not list(folder.glob(".*.tmp"))


def test_a_foreign_folder_is_not_written_into(ranker: Ranker, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="not empty and holds no model"):
        ranker.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_where_a_folder_should_be(ranker: Ranker, tmp_path: Path) -> None:
    (tmp_path / "model").write_text("")
    with pytest.raises(InputError, match="is a file; a folder for the model was expected"):
        ranker.save(tmp_path / "model")
    with pytest.raises(StorageError, match="is a file; the folder of a model was expected"):
        load(tmp_path / "model")


@pytest.mark.parametrize("role", ["vectors", "users", "items"])
def test_truncated_damaged_and_missing_files_are_refused(folder: Path, role: str) -> None:
    (path,) = folder.glob(f"{role}-*")
    whole = path.read_bytes()
    for broken in (whole[:-3], bytes([whole[0] ^ 1]) + whole[1:]):
        path.write_bytes(broken)
        with pytest.raises(StorageError, match=f"{path.name} is damaged"):
            load(folder)
    path.unlink()
    with pytest.raises(StorageError, match=f"incomplete: {path.name} is missing"):
        load(folder)


def test_a_missing_folder_and_one_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="there is no folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(StorageError, match="holds no model"):
        load(tmp_path)
    (tmp_path / "checkpoint.safetensors").write_bytes(b"")
    with pytest.raises(StorageError, match="training was not finished; finish it with"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[1]", "does not describe a densirank model"),
        (b'{"format": "recipe"}', "does not describe a densirank model"),
    ],
)
def test_a_manifest_that_is_none_is_refused(folder: Path, content: bytes, sentence: str) -> None:
    (folder / "model.json").write_bytes(content)
    with pytest.raises(StorageError, match=sentence):
        load(folder)


def test_a_newer_format_asks_for_an_upgrade(folder: Path) -> None:
    edit_manifest(folder, version=99)
    with pytest.raises(StorageError, match=r"format version 99.*upgrade densirank"):
        load(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": {"dim": 0}},
        {"settings": {"flavour": 1}},
        {"files": {}},
        {"method": "svd"},
        {"seed": "x"},
    ],
)
def test_a_manifest_with_nonsense_is_refused(folder: Path, changes: dict[str, Any]) -> None:
    edit_manifest(folder, **changes)
    with pytest.raises((StorageError, InputError)):
        load(folder)


def test_a_manifest_cannot_reach_outside_its_folder(folder: Path) -> None:
    (vectors,) = folder.glob("vectors-*")
    shutil.copy(vectors, folder.parent / "outside.safetensors")
    manifest = json.loads((folder / "model.json").read_text())
    manifest["files"]["vectors"]["name"] = "../outside.safetensors"
    edit_manifest(folder, files=manifest["files"])
    with pytest.raises(StorageError, match="outside its folder"):
        load(folder)


def test_files_of_two_models_do_not_pass_for_one(folder: Path) -> None:
    (path,) = folder.glob("vectors-*")
    tensors = load_file(path)
    tensors["item_vectors"] = tensors["item_vectors"][:-1].clone()
    save_file(tensors, path)
    manifest = json.loads((folder / "model.json").read_text())
    manifest["files"]["vectors"] |= {
        "sha256": storage._sha256(path),
        "bytes": path.stat().st_size,
    }
    edit_manifest(folder, files=manifest["files"])
    with pytest.raises(StorageError, match="do not belong together"):
        load(folder)


# --- models of earlier versions -------------------------------------------------------------------

OLD_MODELS = sorted(Path(__file__).with_name("saved_by_0_1_0").iterdir())


@pytest.mark.parametrize("folder", OLD_MODELS, ids=lambda folder: str(folder.name))
def test_models_of_0_1_0_load_and_list_what_they_listed(folder: Path) -> None:
    expected = json.loads((folder / "expected.json").read_text())
    ranker = load(folder, device="cpu")
    lists = ranker.recommend(k=5)
    assert lists["user_id"].to_list() == expected["users"]
    assert lists["item_id"].to_list() == expected["items"]
    np.testing.assert_allclose(lists["score"], expected["scores"], rtol=1e-5)
    folded = ranker.fold_in([("newcomer", "item 1"), ("newcomer", "item 2")])
    assert len(folded.recommend("newcomer", k=3)) == 3


def test_a_loaded_ranker_can_be_fitted_to_data_without_an_order() -> None:
    """What a known order adds to the settings is no choice of a person's."""
    (folder,) = (folder for folder in OLD_MODELS if folder.name == "densirank")
    ranker = load(folder, device="cpu")
    assert ranker.settings_.recency > 0
    assert set(ranker.settings) == {"dim", "iterations", "users_per_batch"}
    assert ranker.fit([(0, 1), (1, 2), (0, 2), (1, 0)]).settings_.recency == 0


def test_a_save_that_fails_at_the_manifest_leaves_the_old_model_whole(
    ranker: Ranker, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old files are named until the new manifest is there: nothing may go before."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = ranker.recommend()
    other = Ranker("pde-mf", device="cpu", dim=3, iterations=2, seed=8).fit(PAIRS)
    monkeypatch.setattr(storage, "write_json", full)
    with pytest.raises(OSError, match="No space left"):
        other.save(folder)
    monkeypatch.undo()
    assert load(folder, device="cpu").recommend().equals(before)
