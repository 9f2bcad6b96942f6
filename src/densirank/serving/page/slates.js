/** Lists drawn from the distribution at a temperature, each item with its propensity. */

import * as api from "./api.js";
import { bar, byId, element, refill, settled } from "./dom.js";
import { percentsUpTo } from "./numbers.js";

const SLATES = 3;
const LENGTH = 5;
const slider = byId("temperature");
const seed = byId("seed");
let person = null;
let drawing = new AbortController();

/** Draw lists for a person, or hide them if there is none. */
export function showSlates(chosen) {
  person = chosen;
  byId("slates").hidden = person === null;
  if (person) draw();
}

const temperature = () => 2 ** Number(slider.value); // the slider is logarithmic
const firstSeed = () => Math.max(0, Math.trunc(Number(seed.value)) || 0);

async function draw() {
  drawing.abort();
  drawing = new AbortController();
  const { signal } = drawing;
  const lists = byId("slate-lists");
  lists.setAttribute("aria-busy", "true");
  const seeds = Array.from({ length: SLATES }, (_, index) => firstSeed() + index);
  const options = { k: LENGTH, sample: true, temperature: temperature() };
  try {
    const drawn = await Promise.all(
      seeds.map((one) => api.recommend(person, { ...options, seed: one }, signal)),
    );
    const all = drawn.flatMap(({ items }) => items.map((item) => item.log_propensity));
    const most = Math.exp(Math.max(...all));
    refill(lists, drawn.map(({ items }, index) => slate(items, seeds[index], most)), byId("draw"));
    lists.removeAttribute("aria-busy");
  } catch (error) {
    if (error.name === "AbortError") return;
    refill(lists, [element("p", { class: "notice", role: "alert" }, error.message)], byId("draw"));
    lists.removeAttribute("aria-busy");
  }
}

function slate(items, one, most) {
  const propensities = items.map((item) => Math.exp(item.log_propensity));
  const title = `slate-${one}`;
  return element(
    "section",
    { class: "slate", "aria-labelledby": title },
    element("h3", { id: title }, `Seed ${one}`),
    element(
      "ol",
      { class: "plain" },
      ...items.map((item, index) =>
        element(
          "li",
          {},
          element("span", { class: "name" }, api.nameOf(item)),
          element("span", { class: "number" }, percentsUpTo(most)(propensities[index])),
          bar(propensities[index] / most),
        ),
      ),
    ),
  );
}

function tellTemperature() {
  const text = temperature().toFixed(2);
  byId("temperature-value").textContent = text;
  slider.setAttribute("aria-valuetext", text);
}

const drawSoon = settled(150, draw);
slider.addEventListener("input", () => {
  tellTemperature();
  drawSoon();
});
seed.addEventListener("input", drawSoon);
byId("draw").addEventListener("click", () => {
  seed.value = firstSeed() + SLATES;
  draw();
});
tellTemperature();
