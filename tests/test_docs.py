"""The documentation names files, functions and tests that exist."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
WHOLE_LINK = re.compile(r"\[[^]]*\]\([^)]*\)")
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]+)?\)")
NAME = re.compile(r"`(densirank(?:\.\w+)+)(?:\([^`]*\))?`")
FILE = re.compile(r"`((?:\w+/)+\w+\.py)`")
TEST = re.compile(r"`((?:\w+/)*test_\w+\.py)`")

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def headings(page: Path) -> set[str]:
    """The anchors of a page, as they are made of its headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.+)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def found(name: str) -> bool:
    """Whether a dotted name leads to a module or to something in it."""
    module, attributes = name.split("."), list[str]()
    while module:
        try:
            here = import_module(".".join(module))
        except ModuleNotFoundError:
            attributes.insert(0, module.pop())
            continue
        for attribute in attributes:
            if not hasattr(here, attribute):
                return False
            here = getattr(here, attribute)
        return True
    return False


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        there = (page.parent / target).resolve()
        assert there.exists(), f"{page.name} links to {target}"
        if anchor and there.suffix == ".md":
            assert anchor[1:] in headings(there), f"{page.name} links to {target}{anchor}"


@every_page
def test_names_of_the_library_exist(page: Path) -> None:
    names = set(NAME.findall(page.read_text(encoding="utf-8")))
    assert {name for name in names if not found(name)} == set()


@every_page
def test_tests_that_are_named_exist(page: Path) -> None:
    folders = [ROOT / "tests", ROOT / "tests" / "paper"]  # 'docs/method.md' says so
    named = set(TEST.findall(WHOLE_LINK.sub("", page.read_text(encoding="utf-8"))))
    missing = {test for test in named if not any((folder / test).exists() for folder in folders)}
    assert missing == set()


@every_page
def test_files_that_are_named_exist(page: Path) -> None:
    folders = [ROOT, ROOT / "src" / "densirank", ROOT / "tests", page.parent]
    named = set(FILE.findall(WHOLE_LINK.sub("", page.read_text(encoding="utf-8"))))
    assert {name for name in named if not any((at / name).exists() for at in folders)} == set()
