/** The history: the items of a known user, or items selected on the page. */

import * as address from "./address.js";
import * as api from "./api.js";
import { byId, element, refill } from "./dom.js";
import { counted } from "./numbers.js";

let shown = []; // ids as text, newest first

/** Show the items of a person. */
export async function showHistory(person, signal) {
  const items = person.items
    ? await api.named(person.items, signal)
    : (await api.user(person.user, signal)).history;
  shown = items.map((item) => String(item.id));
  byId("history-note").textContent = person.items
    ? `${counted(items.length, "item")} put together here; the model has not met this person.`
    : `User ${person.user}: ${counted(items.length, "item")}.`;
  byId("edit-history").hidden = Boolean(person.items);
  const rows = items.map((item) => row(item, Boolean(person.items)));
  refill(byId("history-items"), rows, byId("history"));
  byId("history").hidden = false;
}

/** Hide the history: no person is selected. */
export function forgetHistory() {
  shown = [];
  if (byId("history").contains(document.activeElement)) byId("item-search").focus();
  byId("history").hidden = true;
}

/** Show the person with this item added to the history. */
export function add(id) {
  address.go(address.ofItems([String(id), ...shown.filter((other) => other !== String(id))]));
}

/** A button that adds an item to the history. */
export function adder(item) {
  const attributes = {
    type: "button",
    class: "add",
    title: "Add to the history",
    "aria-label": `Add ${api.nameOf(item)} to the history`,
    onclick: () => add(item.id),
  };
  return element("button", attributes, "+");
}

function row(item, removable) {
  const name = element("span", { class: "name" }, api.nameOf(item));
  return element("li", {}, name, removable ? remover(item) : null);
}

function remover(item) {
  const attributes = {
    type: "button",
    class: "remove",
    "aria-label": `Remove ${api.nameOf(item)}`,
    onclick: () => address.go(address.ofItems(shown.filter((id) => id !== String(item.id)))),
  };
  return element("button", attributes, "×");
}

byId("edit-history").addEventListener("click", () => address.go(address.ofItems(shown)));
byId("clear-history").addEventListener("click", () => address.go(""));
