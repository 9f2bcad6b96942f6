"""Tables of a document: marked tables are regenerated from the records.

A mark is a comment with the title of a table, ``<!-- made: TITLE -->``, directly above the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from densirank.files import written_atomically
from paper.sheets import Sheet

MARKED = re.compile(r"(?P<mark><!-- made: (?P<title>.+) -->\n+)(?P<table>(?:\|.*\n)*)")


def titles(text: str) -> list[str]:
    """What the marks of a document ask for."""
    return [found["title"] for found in MARKED.finditer(text)]


def renewed(text: str, sheets: Iterable[Sheet]) -> tuple[str, list[str]]:
    """The document with these tables as they are now, and the titles of those that changed.

    Marked tables that are not among the sheets stay as they are.

    >>> sheet = Sheet("Points", ("who", "points"), (("ann", "3"),))
    >>> text, changed = renewed("<!-- made: Points -->\\n", [sheet])
    >>> print(text)
    <!-- made: Points -->
    <BLANKLINE>
    | who | points |
    | --- | ---: |
    | ann | 3 |
    <BLANKLINE>
    >>> changed
    ['Points']
    """
    tables = {sheet.title: "\n".join(sheet.lines()) + "\n" for sheet in sheets}
    changed: list[str] = []

    def renew(found: re.Match[str]) -> str:
        title = found["title"]
        if title not in tables or tables[title] == found["table"]:
            return found[0]
        changed.append(title)
        return f"<!-- made: {title} -->\n\n{tables[title]}"

    return MARKED.sub(renew, text), changed


def renew_file(path: Path, sheets: Iterable[Sheet]) -> list[str]:
    """Regenerate the marked tables of a document; return the titles of those that changed."""
    text, changed = renewed(path.read_text(encoding="utf-8"), sheets)
    if changed:
        with written_atomically(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return changed
