"""The page in a real browser, against the real service and a small fitted model."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from looking import BEYOND_DOUBLES, ITEMS, TITLES, Visit, served

from densirank import Ranker
from densirank.serving.app import ServeConfig

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Readers of the sea and readers of the hills, with nine items each."""
    random = np.random.default_rng(0)
    readers = [*range(100, 140), BEYOND_DOUBLES]
    log = [
        (reader, int(item))
        for place, reader in enumerate(readers)
        for item in random.permutation(np.arange(place % 2, ITEMS, 2))[:9]
    ]
    ranker = Ranker("wd-mf", dim=8, iterations=40, validate_every=10, device="cpu")
    folder = tmp_path_factory.mktemp("model")
    ranker.fit(log, valid=0.2).save(folder)
    return folder


@pytest.fixture(scope="module")
def address(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    titles = tmp_path_factory.mktemp("titles") / "titles.csv"
    rows = [f'{item},"{title}"' for item, title in TITLES.items()]
    titles.write_text("\n".join(["item_id,title", *rows]), encoding="utf-8")
    with served(ServeConfig(model, titles=titles)) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = next(filter(None, map(shutil.which, BROWSERS)), None)
    if chromium is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is here")
    # Chromium has a socket among its temporary files, whose address ends at 107 bytes.
    with (
        TemporaryDirectory(prefix="chromium-", dir="/tmp", ignore_cleanup_errors=True) as short,
        playwright.sync_playwright() as driver,
    ):
        environment = os.environ | {"TMPDIR": short}
        browser = driver.chromium.launch(executable_path=chromium, env=environment)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser, address: str) -> Visit:
    """Opens the page; at the end there was no error and no other host was asked.

    ``refusals`` allows for answers that are errors: a browser logs each of them.
    """

    @contextmanager
    def visiting(
        where: str = "", *, base: str = address, refusals: bool = False, **how: Any
    ) -> Iterator[Page]:
        context = browser.new_context(**how)
        context.set_default_timeout(20_000)
        page = context.new_page()
        errors: list[str] = []
        asked: list[str] = []
        page.on("console", lambda line: errors.extend([line.text] if line.type == "error" else []))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(base + where)
        yield page
        context.close()
        if refusals:
            errors = [text for text in errors if not text.startswith("Failed to load resource")]
        assert errors == []
        assert [url for url in asked if not url.startswith(base)] == []

    return visiting
