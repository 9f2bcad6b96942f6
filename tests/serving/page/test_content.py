"""What the page shows is what the service says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import httpx
import numpy as np
import pytest
from looking import BEYOND_DOUBLES, TITLES, Visit, names, percents, recommended, served, texts

from densirank import Ranker
from densirank.serving.app import ServeConfig

if TYPE_CHECKING:
    from playwright.sync_api import Page


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
