/** The most likely next items with their probabilities, and for each its reasons and neighbours. */

import * as api from "./api.js";
import { bar, byId, element, refill } from "./dom.js";
import { adder } from "./history.js";
import { counted, percentsUpTo, signed } from "./numbers.js";

const LISTED = 10;
const REASONS_OR_NEIGHBOURS = 5;

/** Request a person's list and show it; returns the fingerprint of its model. */
export async function showRanking(person, signal) {
  const result = await api.recommend(person, { k: LISTED }, signal);
  const [first] = result.items;
  const title = byId("answer-title");
  title.textContent = person.items ? "Next after this history" : `Next for user ${person.user}`;
  byId("answer-note").textContent = first
    ? `As open as a fair choice among ${counted(Math.round(result.effective_items), "item")} ` +
      `(entropy ${result.entropy.toFixed(2)}). Choose an item to see why it is here.`
    : "There is no item left that they have not had.";
  const rows = result.items.map((item, index) => row(person, item, index, first.probability));
  refill(byId("recommendations"), rows, title);
  byId("answer").hidden = false;
  byId("status").textContent = first
    ? `${counted(result.items.length, "item")}; the likeliest is ${api.nameOf(first)}.`
    : byId("answer-note").textContent;
  return result.model;
}

function row(person, item, index, most) {
  const panel = element("div", { class: "behind", id: `behind-${index}`, hidden: true });
  const button = element(
    "button",
    { type: "button", class: "item", "aria-expanded": "false", "aria-controls": panel.id },
    element("span", { class: "rank" }, `${index + 1}`),
    element("span", { class: "name" }, api.nameOf(item)),
    bar(item.probability / most),
    element("span", { class: "number" }, percentsUpTo(most)(item.probability)),
  );
  button.addEventListener("click", () => toggle(button, panel, person, item));
  return element("li", {}, element("div", { class: "line" }, button, adder(item)), panel);
}

function toggle(button, panel, person, item) {
  const opening = panel.hidden;
  panel.hidden = !opening;
  button.setAttribute("aria-expanded", String(opening));
  if (opening && !panel.hasChildNodes()) {
    panel.append(
      section("Why", "What the score would lose without these past items.", why(person, item)),
      section("Similar items", "How near they are to it.", neighbours(item)),
    );
  }
}

/** A part of the panel that shows its rows when they arrive, or the error. */
function section(title, note, rows) {
  const list = element("ol", { class: "plain", "aria-busy": "true" });
  const told = element("p", { class: "note", role: "status" }, note);
  rows
    .then((found) => {
      list.replaceChildren(...found);
      if (!found.length) told.textContent = "There is nothing to show here.";
    })
    .catch((error) => (told.textContent = error.message))
    .finally(() => list.removeAttribute("aria-busy"));
  return element("section", {}, element("h3", {}, title), told, list);
}

async function why(person, item) {
  const reasons = (await api.reasons(person, item.id)).slice(0, REASONS_OR_NEIGHBOURS);
  const most = Math.max(...reasons.map((reason) => Math.abs(reason.contribution)));
  return reasons.map((reason) =>
    element(
      "li",
      { class: "reason" },
      element("span", { class: "name" }, api.nameOf(reason)),
      bar(Math.abs(reason.contribution) / most, reason.contribution < 0 ? "against" : ""),
      element("span", { class: "number" }, signed(reason.contribution)),
    ),
  );
}

async function neighbours(item) {
  const { items } = await api.similar(item.id, REASONS_OR_NEIGHBOURS);
  return items.map((near) =>
    element(
      "li",
      { class: "neighbour" },
      element("span", { class: "name" }, api.nameOf(near)),
      element("span", { class: "number" }, near.score.toFixed(2)),
      adder(near),
    ),
  );
}
