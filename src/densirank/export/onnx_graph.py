"""The scorer as an ONNX graph: user indices in, the best items and their scores out.

    scores = user_vectors[users] · item_vectorsᵀ  (+ the highest of the users' sparse parts)
    scores[excluded] = −∞ ; items, scores = TopK(scores, k)

``excluded`` are item indices to leave out for each user, such as the user's own items, padded with
-1: a column of −∞ is appended to the scores, and -1 refers to it. If fewer than k items are left,
the rest of the list has a score of −∞.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from densirank._version import __version__
from densirank.data.interactions import Interactions
from densirank.errors import InputError
from densirank.files import written_atomically
from densirank.linalg.csr import SparsePart
from densirank.scores import VectorScorer
from densirank.storage import write_ids

OPSET = 18
"""The first version in which ScatterElements can add."""

IR_VERSION = 9

GRAPH = "scorer.onnx"
WEIGHTS = "scorer.onnx.data"


def export_onnx(data: Interactions, scorer: VectorScorer, folder: Path) -> list[str]:
    """Write ``scorer.onnx``, the ids at its indices, and ``scorer.onnx.data``, which it reads.

    The two ``scorer`` files must stay in the same folder.
    """
    onnx = _onnx()
    model = graph_of(scorer)
    # The weights have their own file: a protobuf message is limited to 2 GiB.
    (folder / WEIGHTS).unlink(missing_ok=True)
    onnx.save_model(
        model,
        str(folder / GRAPH),
        save_as_external_data=True,
        location=WEIGHTS,
        size_threshold=1024,
    )
    ids = {"users.parquet": data.user_ids, "items.parquet": data.item_ids}
    for name, vocabulary in ids.items():
        with written_atomically(folder / name) as temporary:
            write_ids(temporary, vocabulary)
    return [name for name in (GRAPH, WEIGHTS, *ids) if (folder / name).exists()]


def graph_of(scorer: VectorScorer) -> Any:
    """The ONNX model: inputs users (batch,), k (1,), excluded (batch, n), all int64."""
    helper, numpy_helper = _onnx().helper, _onnx().numpy_helper
    kinds = _onnx().TensorProto
    weights = {
        "user_vectors": scorer.user_vectors.cpu().numpy(),
        "item_vectors_transposed": np.ascontiguousarray(scorer.item_vectors.cpu().numpy().T),
        "one_column": np.array([0, 0, 0, 1], dtype=np.int64),  # columns before and after, for Pad
        "minus_infinity": np.array(-np.inf, dtype=np.float32),
    }
    nodes = [
        helper.make_node("Gather", ["user_vectors", "users"], ["vectors"], axis=0),
        helper.make_node("MatMul", ["vectors", "item_vectors_transposed"], ["products"]),
    ]
    scores = "products"
    part = scorer.kept_part()
    if part is not None:
        columns, values = _padded(part)
        weights |= {"sparse_items": columns, "sparse_values": values}
        nodes += [
            helper.make_node("Gather", ["sparse_items", "users"], ["own_items"], axis=0),
            helper.make_node("Gather", ["sparse_values", "users"], ["own_values"], axis=0),
            helper.make_node(
                "ScatterElements",
                [scores, "own_items", "own_values"],
                ["both"],
                axis=1,
                reduction="add",
            ),
        ]
        scores = "both"
    nodes += [
        helper.make_node("Pad", [scores, "one_column", "minus_infinity"], ["padded"]),
        helper.make_node("Shape", ["excluded"], ["places"]),
        helper.make_node("Expand", ["minus_infinity", "places"], ["barring"]),
        helper.make_node("ScatterElements", ["padded", "excluded", "barring"], ["left"], axis=1),
        helper.make_node("TopK", ["left", "k"], ["scores", "items"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "densirank",
        [
            helper.make_tensor_value_info("users", kinds.INT64, ["batch"]),
            helper.make_tensor_value_info("k", kinds.INT64, [1]),
            helper.make_tensor_value_info("excluded", kinds.INT64, ["batch", "n"]),
        ],
        [
            helper.make_tensor_value_info("items", kinds.INT64, ["batch", "top"]),
            helper.make_tensor_value_info("scores", kinds.FLOAT, ["batch", "top"]),
        ],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="densirank",
        producer_version=__version__,
    )


def _padded(part: SparsePart) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The sparse part as two tables with a row per user; short rows end with 0 for item 0."""
    rows = part.rows
    shape = (len(rows), int(rows.counts.max()))
    columns, values = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.float32)
    row = rows.row_of_entry.cpu().numpy()
    place = np.arange(len(row)) - rows.indptr.cpu().numpy()[row]
    columns[row, place] = rows.columns.cpu().numpy()
    values[row, place] = part.values.cpu().numpy()
    return columns, values


def _onnx() -> Any:
    """The onnx package; an error if it is not installed."""
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise InputError(
            "an ONNX graph needs the package onnx: pip install 'densirank[export]'"
        ) from error
    return onnx
