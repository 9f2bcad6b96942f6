"""``densirank similar``: the items most like one."""

from __future__ import annotations

from typing import Annotated

import typer

from densirank.cli import printing
from densirank.cli.options import JsonOption, ModelFolder


def similar(
    model: ModelFolder,
    item: Annotated[str, typer.Argument(metavar="ITEM", help="An item's id.")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """List the items most similar to one, by the angle or the weight between them."""
    from densirank import load

    frame = load(model, "cpu").similar_items(item, k)
    if as_json:
        printing.print_json(frame.to_dicts())
    else:
        printing.print_frame(frame)
