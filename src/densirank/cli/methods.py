"""``densirank methods``: list the methods."""

from __future__ import annotations

from rich.box import SIMPLE
from rich.table import Column, Table

from densirank.cli import printing
from densirank.cli.options import JsonOption
from densirank.methods import METHODS


def methods(as_json: JsonOption = False) -> None:
    """List the methods: each is a model, a risk and a constraint."""
    if as_json:
        keys = ("model", "risk", "max_norm", "summary")
        printing.print_json(
            [{"method": m.name} | {key: getattr(m, key) for key in keys} for m in METHODS.values()]
        )
        return
    table = Table(Column("method", no_wrap=True), "what it is", "max_norm", box=SIMPLE)
    for m in METHODS.values():
        table.add_row(m.name, m.summary, "–" if m.max_norm is None else f"{m.max_norm:g}")
    printing.out.print(table)
