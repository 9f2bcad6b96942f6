"""The page in a real browser, against the real service and a small fitted model."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import httpx
import numpy as np
import pytest
import uvicorn

from densirank import Ranker
from densirank.serving.app import create_app
from densirank.serving.config import ServeConfig

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=f"none of {', '.join(BROWSERS)} is here")

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


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM)
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


# --- people ----------------------------------------------------------------------------------


def test_a_user_found_by_search_has_the_history_and_the_probabilities_of_the_api(
    visit: Visit, address: str
) -> None:
    with visit() as page:
        page.get_by_label("Find a user").fill("107")
        page.get_by_role("option", name="107").click()
        shown = texts(page, "#recommendations .name")
        probabilities = percents(page, "#recommendations .number")
        assert page.get_by_role("heading", name="Next for user 107").is_visible()
        history = texts(page, "#history-items .name")
    items = recommended(address, users=[107], k=10)
    assert shown == names(items)
    assert len(shown) == 10
    assert probabilities == pytest.approx([item["probability"] for item in items], abs=1e-4)
    assert history == names(httpx.get(f"{address}v1/users/107").json()["history"])


def test_a_history_put_together_by_clicks_is_folded_in(visit: Visit, address: str) -> None:
    with visit() as page:
        texts(page, "#popular button")
        page.get_by_role("button", name=TITLES[8], exact=True).click()
        page.get_by_label("add items").fill("part 10")
        page.get_by_role("option", name=TITLES[10]).click()
        page.get_by_text("2 items put together here").wait_for()
        assert texts(page, "#history-items .name") == [TITLES[10], TITLES[8]]
        shown = texts(page, "#recommendations .name")
        probabilities = percents(page, "#recommendations .number")

        page.get_by_role("button", name=f"Remove {TITLES[8]}").click()
        page.get_by_text("1 item put together here").wait_for()
        shorter = texts(page, "#recommendations .name")
    items = recommended(address, histories=[[10, 8]], k=10)
    assert shown == names(items)
    assert probabilities == pytest.approx([item["probability"] for item in items], abs=1e-4)
    assert shorter == names(recommended(address, histories=[[10]], k=10))


def test_a_known_users_history_can_be_continued_and_back_leads_back(visit: Visit) -> None:
    with visit("#user=107") as page:
        first = texts(page, "#recommendations .name")[0]
        page.get_by_role("button", name=f"Add {first} to the history").click()
        page.get_by_text("10 items put together here").wait_for()
        assert texts(page, "#history-items .name")[0] == first
        assert first not in texts(page, "#recommendations .name")
        page.go_back()
        page.get_by_text("User 107: 9 items.").wait_for()
        page.get_by_role("button", name="Start over").click()
        page.get_by_role("heading", name="Start with what is popular").wait_for()


def test_an_item_tells_why_it_is_there_and_what_is_similar(visit: Visit, address: str) -> None:
    with visit("#user=107") as page:
        row = page.locator("#recommendations > li").nth(2)
        row.locator(".item").click()
        reasons = texts(row, ".reason .name")
        contributions = texts(row, ".reason .number")
        neighbours = texts(row, ".neighbour .name")
        assert row.locator(".item").get_attribute("aria-expanded") == "true"
        row.locator(".item").click()
        assert not row.locator(".behind").is_visible()
    item = recommended(address, users=[107], k=10, explain=True)[2]
    assert reasons == names(item["because"])
    shown = [float(text.replace("−", "-")) for text in contributions]
    assert shown == pytest.approx([r["contribution"] for r in item["because"]], abs=0.006)
    similar = httpx.get(f"{address}v1/items/{item['id']}/similar", params={"k": 5})
    assert neighbours == names(similar.json()["items"])


def test_an_id_that_no_javascript_number_holds_stays_exact(visit: Visit, address: str) -> None:
    with visit() as page:
        page.get_by_label("Find a user").fill("9007")
        page.get_by_role("option", name=str(BEYOND_DOUBLES)).click()
        shown = texts(page, "#recommendations .name")
        assert page.get_by_role("heading", name=f"user {BEYOND_DOUBLES}").is_visible()
    assert shown == names(recommended(address, users=[BEYOND_DOUBLES], k=10))


def test_ids_may_be_spelt_in_any_way_and_stand_in_for_titles(
    visit: Visit, ranker: Ranker, tmp_path: Path
) -> None:
    odd = "a/b/similar"  # an id of a user, and of an item too
    ranker.save(tmp_path)
    with served(ServeConfig(tmp_path)) as untitled, visit(base=untitled) as page:
        page.get_by_label("Find a user").fill("a/")
        page.get_by_role("option", name=odd).click()
        shown = texts(page, "#recommendations .name")
        assert shown == [str(i["id"]) for i in recommended(untitled, users=[odd], k=10)]

        history = ["50% off?", "#1", odd]
        page.goto(untitled + address_of(history))
        page.get_by_text("3 items put together here").wait_for()
        assert texts(page, "#history-items .name") == history
        shown = texts(page, "#recommendations .name")
        assert shown == [str(i["id"]) for i in recommended(untitled, histories=[history], k=10)]


def address_of(history: list[str]) -> str:
    return "#" + urlencode([("item", item) for item in history])


# --- slates ----------------------------------------------------------------------------------


def test_slates_are_those_of_the_seed_and_the_temperature(visit: Visit, address: str) -> None:
    def slate(page: Page, seed: int) -> tuple[list[str], list[float]]:
        part = page.get_by_role("region", name=f"Seed {seed}", exact=True)
        return texts(part, ".name"), percents(part, ".number")

    with visit("#user=107") as page:
        first, propensities = slate(page, 1)
        page.get_by_role("button", name="Draw again").click()
        other, _ = slate(page, 4)
        page.get_by_role("spinbutton", name="Seed").fill("1")
        again, _ = slate(page, 1)
        slider = page.get_by_label("Temperature")
        slider.focus()
        with page.expect_response("**/v1/recommend"):
            slider.press("Home")
        assert slider.get_attribute("aria-valuetext") == "0.13"
        cold, cold_propensities = slate(page, 1)
    drawn = recommended(address, users=[107], k=5, sample=True, temperature=1, seed=1)
    assert first == again == names(drawn)
    assert propensities == pytest.approx(np.exp([i["log_propensity"] for i in drawn]), abs=1e-4)
    assert other != first
    drawn = recommended(address, users=[107], k=5, sample=True, temperature=0.125, seed=1)
    assert cold == names(drawn)
    assert cold_propensities == pytest.approx(
        np.exp([i["log_propensity"] for i in drawn]), abs=1e-4
    )


# --- the model -------------------------------------------------------------------------------


def test_the_model_card_tells_data_method_settings_and_the_training_curve(
    visit: Visit, address: str
) -> None:
    card = httpx.get(f"{address}v1/model").json()
    with visit() as page:
        page.get_by_role("link", name="Model").click()
        page.get_by_role("heading", name="wd-mf").wait_for()
        rows = dict(zip(texts(page, "dt"), texts(page, "dd"), strict=True))
        curves = page.get_by_role("img", name="iterations").all()
        points = [
            (curve.locator("path.line").get_attribute("d") or "").count("L") for curve in curves
        ]
    reports = card["training"]["reports"]
    assert (rows["users"], rows["items"], rows["user–item pairs"]) == ("41", "30", "369")
    assert (rows["dim"], rows["max norm"]) == ("8", str(card["settings"]["max_norm"]))
    validated = sum(report["validation"] is not None for report in reports)
    assert points == [len(reports) - 1, validated - 1]
    best = card["training"]["best_validation_ndcg@20"]
    assert float(rows["nDCG@20 on validation data"]) == pytest.approx(best, rel=1e-3)


# --- everybody can use it --------------------------------------------------------------------


def test_everything_can_be_done_from_the_keyboard(visit: Visit) -> None:
    with visit() as page:
        texts(page, "#popular button")
        tab_to(page, "user-search")
        page.keyboard.type("11")
        page.get_by_role("option").first.wait_for()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        active = page.locator("#user-search").get_attribute("aria-activedescendant")
        assert page.locator(f"#{active}").get_attribute("aria-selected") == "true"
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Next for user 111").wait_for()
        page.get_by_role("status").get_by_text("the likeliest is").wait_for(state="attached")

        third = texts(page, "#recommendations .name")[2]
        tab_to(page, third)
        page.keyboard.press("Enter")
        page.locator(".reason").first.wait_for()
        tab_to(page, "+")
        page.keyboard.press("Enter")
        page.get_by_text("10 items put together here").wait_for()
        calm(page)
        assert focused(page) == "answer-title"  # the button is gone; the place is kept
        tab_to(page, "temperature")
        page.keyboard.press("ArrowRight")
        assert page.locator("#temperature-value").text_content() == "1.19"
        tab_to(page, "draw")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Seed 4", exact=True).wait_for()

        page.get_by_label("add items").focus()
        page.keyboard.type("hill")
        page.get_by_role("option").first.wait_for()
        page.keyboard.press("Escape")
        assert page.get_by_role("option").count() == 0


def test_nothing_sticks_out_at_the_width_of_a_phone(visit: Visit, address: str) -> None:
    with visit(viewport={"width": 360, "height": 740}) as page:
        texts(page, "#popular button")
        assert_nothing_sticks_out(page)
        for who in ("user=107", "item=4&item=6"):
            page.goto(f"{address}#{who}")
            texts(page, ".slate")
            page.locator(".item").first.click()
            texts(page, ".reason")
            assert_nothing_sticks_out(page)
        page.goto(f"{address}#model")
        texts(page, "dd")
        assert_nothing_sticks_out(page)


def test_text_stands_out_from_what_is_behind_it(visit: Visit) -> None:
    with visit("#user=107") as page:
        texts(page, ".slate")
        page.locator(".item").first.click()
        texts(page, ".reason")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            contrasts: dict[str, float] = page.evaluate(CONTRASTS)
            assert len(contrasts) > 50
            assert {text: ratio for text, ratio in contrasts.items() if ratio < 4.5} == {}


CONTRASTS = """() => {
  const numbers = (colour) => colour.match(/[0-9.]+/g).map(Number);
  const luminance = (colour) => numbers(colour).slice(0, 3)
    .map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    const colour = getComputedStyle(node).backgroundColor;
    return numbers(colour)[3] === 0 ? behind(node.parentElement) : colour;
  };
  const texts = [...document.querySelectorAll("body *")].filter((node) => node.checkVisibility()
    && [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()));
  return Object.fromEntries(texts.map((node) => {
    const [low, high] = [luminance(getComputedStyle(node).color), luminance(behind(node))]
      .sort((a, b) => a - b);
    return [`${node.tagName}.${node.className} ${node.textContent}`, (high + 0.05) / (low + 0.05)];
  }));
}"""


# --- what goes wrong -------------------------------------------------------------------------


def test_a_title_is_text_whatever_it_holds(visit: Visit) -> None:
    with visit() as page:
        page.get_by_label("add items").fill("<script>")
        page.get_by_role("option", name=HOSTILE).click()
        assert texts(page, "#history-items .name") == [HOSTILE]
        page.get_by_role("button", name="Start over").click()
        assert HOSTILE in texts(page, "#popular button")
        assert page.locator("main :is(script, img)").count() == 0
        assert page.title() == "densirank"


def test_an_unknown_user_is_told_in_a_sentence(visit: Visit) -> None:
    with visit("#user=nobody", refusals=True) as page:
        told = texts(page, "#problem:not([hidden])")
        assert told == ["The model does not know the user nobody."]
        assert not page.locator("#answer").is_visible()
        page.get_by_label("Find a user").fill("nobody")
        page.get_by_text("No user's id begins with “nobody”.").first.wait_for()
        page.get_by_label("Find a user").fill("108")
        page.get_by_role("option", name="108").click()
        page.get_by_role("heading", name="Next for user 108").wait_for()
        assert not page.locator("#problem").is_visible()


def test_a_service_that_is_gone_is_told_in_a_sentence(visit: Visit) -> None:
    with visit("#user=107", refusals=True) as page:
        texts(page, "#recommendations .name")
        page.context.set_offline(True)
        page.locator("#recommendations .item").first.click()
        page.locator(".behind").get_by_text("The service does not answer.").first.wait_for()
        page.get_by_label("Find a user").fill("108")
        page.get_by_role("alert").get_by_text("The service does not answer.").wait_for()


def test_a_key_is_asked_for_where_one_is_needed(visit: Visit, model: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(KEY)
    with (
        served(ServeConfig(model, api_key_file=keys)) as guarded,
        visit("#user=107", base=guarded, refusals=True) as page,
    ):
        field = page.get_by_label("This service asks for a key.")
        field.fill("a-key-that-is-not-known")
        assert not page.locator("#problem").is_visible()
        field.press("Enter")
        page.get_by_role("alert").get_by_text("The service does not know this key.").wait_for()
        field.fill(KEY)
        field.press("Enter")
        assert len(texts(page, "#recommendations .item")) == 10
        assert not field.is_visible()
        page.reload()
        assert len(texts(page, "#recommendations .item")) == 10
