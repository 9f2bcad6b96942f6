"""Pictures of the page that ``densirank serve`` shows, with a model of the invented bookshop.

``python examples/screenshots.py docs/figures`` needs Playwright and Chromium. It fits the model,
starts the service as anybody would, and writes ``page-*.png``.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

import bookshop
from densirank import Ranker, read
from densirank.data.splitting import validation_split

READER = "mara.03"
WEIGHTS = {"view": 1, "cart": 3, "purchase": 10}
HISTORY = ["space-03", "space-22", "mathematics-06", "mathematics-21", "space-08"]


def fitted(folder: Path) -> tuple[Path, Path]:
    """A model of the bookshop and its titles, as files."""
    bookshop.main(folder)
    log = read(folder / "events.csv", event_column="event", event_weights=WEIGHTS)
    train, held_out = validation_split(log)
    ranker = Ranker(
        "wd-lgcn",
        device="cpu",
        dim=32,
        learning_rate=0.05,
        l2=0.05,
        iterations=100,
        validate_every=5,
    )
    ranker.fit(train, valid=held_out).calibrate(held_out).save(folder / "model")
    return folder / "model", folder / "titles.csv"


@contextmanager
def served(model: Path, titles: Path) -> Iterator[str]:
    """The address of the service while it runs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "densirank", "serve", str(model)]
    service = subprocess.Popen([*command, "--titles", str(titles), "--port", str(port)])
    address = f"http://127.0.0.1:{port}/"
    try:
        _wait_for(f"{address}readyz", service)
        yield address
    finally:
        service.terminate()
        service.wait()


def _wait_for(address: str, service: subprocess.Popen[bytes]) -> None:
    while service.poll() is None:
        try:
            with urllib.request.urlopen(address):
                return
        except urllib.error.URLError:
            time.sleep(0.1)
    raise SystemExit("the service did not start")


@contextmanager
def picture(browser: Browser, path: Path, full: bool = True, **how: Any) -> Iterator[Page]:
    """A new page; what it shows in the end is the picture."""
    context = browser.new_context(**how)
    page = context.new_page()
    yield page
    page.mouse.move(0, 0)
    page.evaluate("scrollTo(0, 0)")
    page.locator("[aria-busy]").first.wait_for(state="detached")
    page.wait_for_timeout(400)  # what fades has faded
    page.screenshot(path=path, full_page=full)
    context.close()


def open_item(page: Page, row: int) -> None:
    """Ask why an item is listed."""
    page.locator("#recommendations .item").nth(row).click()
    page.locator(".reason").first.wait_for()
    page.locator(".neighbour").first.wait_for()


def main(folder: Path) -> None:
    """Fit, serve, look."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with (
        tempfile.TemporaryDirectory() as scratch,
        served(*fitted(Path(scratch))) as address,
        sync_playwright() as driver,
    ):
        browser = driver.chromium.launch(executable_path=chromium)
        wide = {"width": 1280, "height": 860}
        with picture(browser, folder / "page-user.png", viewport=wide) as page:
            page.goto(f"{address}#user={READER}")
            page.locator(".slate").first.wait_for()
            open_item(page, 1)
            page.locator("#temperature").fill("-1")
        history = "&".join(f"item={item}" for item in HISTORY)
        dark: dict[str, Any] = {"viewport": wide, "color_scheme": "dark"}
        with picture(browser, folder / "page-history-dark.png", full=False, **dark) as page:
            page.goto(f"{address}#{history}")
            page.locator(".slate").first.wait_for()
            page.locator("#item-search").fill("orb")
            page.get_by_role("option").first.wait_for()
            page.keyboard.press("ArrowDown")
        phone: dict[str, Any] = {"viewport": {"width": 360, "height": 1330}}
        with picture(browser, folder / "page-phone.png", full=False, **phone) as page:
            page.goto(f"{address}#{history}")
            page.locator(".slate").first.wait_for()
        with picture(browser, folder / "page-model.png", viewport=wide) as page:
            page.goto(f"{address}#model")
            page.locator(".chart .line").first.wait_for()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
