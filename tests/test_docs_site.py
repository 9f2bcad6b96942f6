"""The documentation site: links that a page of it can follow, and nothing loaded from elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="needs the extra docs")

from docs_site import DOCS, ROOT, loaded_from_elsewhere, moved


@pytest.mark.parametrize(
    ("text", "source", "page", "shown"),
    [
        ("[Guide](docs/guide.md)", ROOT, DOCS, "[Guide](guide.md)"),
        ("[docs/page.md](docs/page.md#a)", ROOT, DOCS, "[The page](page.md#a)"),
        ("[`grids.py`](../paper/grids.py)", DOCS, DOCS, "`paper/grids.py`"),
        ("[the grids](../paper/grids.py)", DOCS, DOCS, "the grids (`paper/grids.py`)"),
        ("[home](../README.md)", DOCS, DOCS, "[home](index.md)"),
        ("[a](../tuning.md)", DOCS / "reference", DOCS / "reference", "[a](../tuning.md)"),
        ("![quality](docs/quality.png)", ROOT, DOCS, "![quality](quality.png)"),
        ("[paper](https://arxiv.org/abs/2105.04769)", ROOT, DOCS, None),
        ("[below](#here)", ROOT, DOCS, None),
    ],
)  # fmt: skip
def test_links_are_those_of_the_site(
    text: str, source: Path, page: Path, shown: str | None
) -> None:
    assert moved(text, source, page) == (text if shown is None else shown)


def test_what_a_page_loads_from_another_host_is_found(tmp_path: Path) -> None:
    (tmp_path / "good.html").write_text(
        '<a href="https://a.example">a</a><link rel="canonical" href="https://a.example">'
        '<script src="here.js"></script><img src="data:image/png;base64,AA">'
    )
    assert loaded_from_elsewhere(tmp_path) == {}
    (tmp_path / "bad.html").write_text(
        '<link rel="stylesheet" href="https://fonts.example/a.css"><img src="//b.example/b.png">'
        "<style>@import url('https://c.example/c.css')</style>"
    )
    (tmp_path / "bad.css").write_text("a { background: url(http://d.example/d.png) }")
    assert loaded_from_elsewhere(tmp_path) == {
        "bad.css": ["http://d.example/d.png"],
        "bad.html": [
            *("https://fonts.example/a.css", "//b.example/b.png", "https://c.example/c.css")
        ],
    }
