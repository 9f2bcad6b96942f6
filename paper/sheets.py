"""Rendering of a table on a terminal or as Markdown."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class Sheet:
    """Text in rows and columns under a title; the first column is words, the others figures."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def rich(self) -> Table:
        """For a terminal."""
        table = Table(
            title=Text(self.title),
            title_justify="left",
            caption=Text(self.note),
            caption_justify="left",
            box=SIMPLE,
        )
        for place, column in enumerate(self.columns):
            table.add_column(column, justify="left" if place == 0 else "right", no_wrap=True)
        for row in self.rows:
            table.add_row(*map(Text, row))
        return table

    def narrowed(self) -> Sheet:
        """The same without the columns in which no row says anything."""
        kept = [
            place
            for place in range(len(self.columns))
            if not self.rows or any(row[place] not in ("", "–") for row in self.rows)
        ]
        return replace(
            self,
            columns=tuple(self.columns[place] for place in kept),
            rows=tuple(tuple(row[place] for place in kept) for row in self.rows),
        )

    def lines(self) -> list[str]:
        """The table without its title, as lines of Markdown."""
        rule = ("---", *["---:"] * (len(self.columns) - 1))
        return [_line(self.columns), _line(rule), *map(_line, self.rows)]

    def markdown(self) -> str:
        """For a document."""
        lines = [f"### {self.title}", "", *self.lines()]
        return "\n".join([*lines, "", self.note, ""] if self.note else [*lines, ""])


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
