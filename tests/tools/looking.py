"""What tests of the page look at, and how."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import uvicorn

from densirank.serving.app import ServeConfig, create_app

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

ITEMS = 30
BEYOND_DOUBLES = 2**53 + 1
"""An id that a JavaScript number cannot hold."""
KEY = "a-key-of-enough-characters"
HOSTILE = "<script>document.title = 'stolen'</script><img src=nowhere onerror=alert(1)>"
TITLES = {item: f"{('Sea', 'Hill')[item % 2]} stories, part {item}" for item in range(ITEMS)} | {
    4: HOSTILE,
    6: "Unbreakable" * 20,
}

Visit = Callable[..., AbstractContextManager["Page"]]


@contextmanager
def served(config: ServeConfig) -> Iterator[str]:
    """The service on a port of its own, in a thread."""
    server = uvicorn.Server(uvicorn.Config(create_app(config), port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()


def recommended(address: str, **asked: Any) -> list[dict[str, Any]]:
    answer = httpx.post(f"{address}v1/recommend", json=asked)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["results"][0]["items"]
    return items


def names(items: list[dict[str, Any]]) -> list[str]:
    return [item["title"] for item in items]


def calm(page: Page) -> None:
    """Wait until nothing is under way."""
    page.locator("[aria-busy]").first.wait_for(state="detached")


def texts(part: Page | Locator, selector: str) -> list[str]:
    """What the elements say, once there are some and nothing is under way."""
    found = part.locator(selector)
    found.first.wait_for()
    calm(found.page)
    return found.all_text_contents()


def percents(part: Page | Locator, selector: str) -> list[float]:
    return [float(text.strip("<%")) / 100 for text in texts(part, selector)]


def focused(page: Page) -> str:
    """The id of the element that has the focus, or its text."""
    told: str = page.evaluate("document.activeElement.id || document.activeElement.textContent")
    return told


def tab_to(page: Page, wanted: str) -> None:
    """Press Tab until an element with this id or with this in its text has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if wanted in focused(page):
            return
    pytest.fail(f"Tab never comes to {wanted}")


def assert_nothing_sticks_out(page: Page) -> None:
    width, place = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width <= place
