"""Docstrings as the documentation site shows them: an extension of griffe, which reads them."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

DOCTEST = re.compile(r"(?:^ *>>> .*\n?(?:^ *\S.*\n?)*\n?)+", flags=re.M)
ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`~?([^`]+)`")


def as_markdown(text: str) -> str:
    """A docstring with its examples as blocks of code, and names of things as code.

    >>> as_markdown("See :func:`densirank.load`.")
    'See `densirank.load`.'
    """
    text = re.sub(r"::$", ":", text, flags=re.M)  # what is indented below is code in Markdown too
    fenced = DOCTEST.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n\n", text)
    return ROLE.sub(r"`\1`", fenced)


class Docstrings(Extension):  # type: ignore[misc]
    """Changes each docstring when its object has been read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
