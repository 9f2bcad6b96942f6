"""Everybody can use the page, and it says what goes wrong."""

from __future__ import annotations

from pathlib import Path

from looking import (
    HOSTILE,
    KEY,
    Visit,
    assert_nothing_sticks_out,
    calm,
    focused,
    served,
    tab_to,
    texts,
)

from densirank.serving.app import ServeConfig


def test_everything_can_be_done_from_the_keyboard(visit: Visit) -> None:
    with visit() as page:
        texts(page, "#popular button")
        tab_to(page, "user-search")
        page.keyboard.type("11")
        page.get_by_role("option", name="110").wait_for()  # not one of those for "1"
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


def test_escape_also_ends_a_search_that_has_not_begun(visit: Visit) -> None:
    with visit() as page:
        texts(page, "#popular button")
        page.clock.install()
        page.get_by_label("add items").focus()
        page.keyboard.type("hill")
        page.clock.run_for(1000)
        page.get_by_role("option").first.wait_for()
        page.evaluate(COUNTING)
        page.keyboard.type("s")
        page.keyboard.press("Escape")
        page.clock.run_for(1000)
        assert page.get_by_role("option").count() == 0
        assert page.evaluate("asked") == 0
        page.keyboard.type("t")
        page.clock.run_for(1000)
        assert page.evaluate("asked") == 1


COUNTING = """() => {
  const ask = fetch;
  window.asked = 0;
  window.fetch = (...how) => {
    asked += 1;
    return ask(...how);
  };
}"""


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
