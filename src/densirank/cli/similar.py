"""``densirank similar``: the items most similar to one."""

from __future__ import annotations

from typing import Annotated

import typer

from densirank.cli import printing
from densirank.cli.options import JsonOption, ModelFolder


def similar(
    model: ModelFolder,
    item: Annotated[str, typer.Argument(metavar="ITEM", help="An item's id.")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many items.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """List the most similar items, by the cosine or the weight between them."""
    from densirank import load

    printing.print_frame(load(model, "cpu").similar_items(item, k), as_json)
