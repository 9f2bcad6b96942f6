"""The scorer as an ONNX graph: user indices in, the best items and their scores out.

    scores = user_vectors[users] · item_vectorsᵀ  (+ the highest of the users' sparse parts)
    scores[excluded] = −∞ ; items, scores = TopK(scores, k)

``excluded`` are item indices to leave out for each user, such as the items had, padded with -1: a
column of −∞ is put after the scores, and -1 falls on it. So items that do not exist, where fewer
than k are left, come out with a score of −∞.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from densirank._version import __version__
from densirank.errors import InputError
from densirank.linalg.csr import SparsePart
from densirank.scores import VectorScorer

OPSET = 18
"""The first with ScatterElements that adds."""

IR_VERSION = 9

GRAPH = "scorer.onnx"
WEIGHTS = "scorer.onnx.data"


def export_onnx(scorer: VectorScorer, folder: Path) -> list[str]:
    """``scorer.onnx`` and the vectors it reads, ``scorer.onnx.data``, which must stay beside it."""
    onnx = _onnx()
    model = graph_of(scorer)
    # The weights get a file of their own: one message of the format cannot pass 2 GiB.
    (folder / WEIGHTS).unlink(missing_ok=True)
    onnx.save_model(
        model,
        str(folder / GRAPH),
        save_as_external_data=True,
        location=WEIGHTS,
        size_threshold=1024,
    )
    return [GRAPH, WEIGHTS] if (folder / WEIGHTS).exists() else [GRAPH]


def graph_of(scorer: VectorScorer) -> Any:
    """The model in ONNX' own form: inputs users (batch,), k (1,), excluded (batch, n), int64."""
    helper, numpy_helper = _onnx().helper, _onnx().numpy_helper
    kinds = _onnx().TensorProto
    weights = {
        "user_vectors": scorer.user_vectors.cpu().numpy(),
        "item_vectors_transposed": np.ascontiguousarray(scorer.item_vectors.cpu().numpy().T),
        "one_column": np.array([0, 0, 0, 1], dtype=np.int64),  # before and after, for Pad
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
    """The sparse part as two tables with a row a user; a short row adds 0 to item 0."""
    rows = part.rows
    shape = (len(rows), int(rows.counts.max()))
    columns, values = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.float32)
    row = rows.row_of_entry.cpu().numpy()
    place = np.arange(len(row)) - rows.indptr.cpu().numpy()[row]
    columns[row, place] = rows.columns.cpu().numpy()
    values[row, place] = part.values.cpu().numpy()
    return columns, values


def _onnx() -> Any:
    """The package, or how to get it."""
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise InputError(
            "an ONNX graph needs the package onnx: pip install 'densirank[export]'"
        ) from error
    return onnx
