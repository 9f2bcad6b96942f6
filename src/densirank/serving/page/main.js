/** The page follows its address: it shows the person in the address, and clicks change it. */

import * as address from "./address.js";
import * as api from "./api.js";
import { showCard } from "./card.js";
import { combobox } from "./combobox.js";
import { byId, element } from "./dom.js";
import { add, forgetHistory, showHistory } from "./history.js";
import { counted } from "./numbers.js";
import { showRanking } from "./ranking.js";
import { showSlates } from "./slates.js";

const OPTIONS = 8;
const POPULAR = 24;
let showing = new AbortController();

async function follow() {
  showing.abort();
  showing = new AbortController();
  const { signal } = showing;
  const { view, person } = address.read();
  byId("people").hidden = view !== "people";
  byId("model").hidden = view !== "model";
  byId("to-people").toggleAttribute("aria-current", view === "people");
  byId("to-model").toggleAttribute("aria-current", view === "model");
  if (view === "people") byId("to-people").href = location.hash || "#";
  tell(null);
  byId("people").removeAttribute("aria-busy"); // left by an aborted request
  try {
    if (view === "model") await showCard();
    else await showPerson(person, signal);
  } catch (error) {
    if (error.name !== "AbortError") tell(error);
  }
}

async function showPerson(person, signal) {
  byId("welcome").hidden = person !== null;
  if (person === null) {
    showNobody();
    await showPopular(signal);
    await showCard();
    return;
  }
  byId("people").setAttribute("aria-busy", "true");
  try {
    const [model] = await Promise.all([showRanking(person, signal), showHistory(person, signal)]);
    showSlates(person);
    await showCard(model);
  } catch (error) {
    if (error.name !== "AbortError") showNobody();
    throw error;
  } finally {
    if (!signal.aborted) byId("people").removeAttribute("aria-busy");
  }
}

function showNobody() {
  forgetHistory();
  showSlates(null);
  byId("answer").hidden = true;
}

async function showPopular(signal) {
  const items = await api.items("", POPULAR, signal);
  const tiles = items.map((item) => {
    const attributes = { type: "button", onclick: () => add(item.id) };
    return element("li", {}, element("button", attributes, api.nameOf(item)));
  });
  byId("popular").replaceChildren(...tiles);
}

/** Show an error, or hide the last one. */
function tell(error) {
  const needsKey = error?.code === "unauthorised";
  byId("key-form").hidden = !needsKey;
  byId("problem").hidden = !error || (needsKey && !api.hasKey());
  const message = needsKey ? "The service does not know this key." : error?.message;
  byId("problem").textContent = message ?? "";
  if (needsKey) byId("key").focus();
}

combobox(byId("user-search"), {
  search: async (query, signal) => {
    const users = await api.users(query, OPTIONS, signal);
    return users.map(({ id, items }) => ({ id, name: String(id), note: counted(items, "item") }));
  },
  pick: (id) => address.go(address.ofUser(id)),
  none: (query) => `No user's id begins with “${query}”.`,
  onError: tell,
});

combobox(byId("item-search"), {
  search: async (query, signal) => {
    const items = await api.items(query, OPTIONS, signal);
    const note = (item) => (item.title ? String(item.id) : "");
    return items.map((item) => ({ id: item.id, name: api.nameOf(item), note: note(item) }));
  },
  pick: add,
  none: (query) => `No item's title or id matches “${query}”.`,
  onError: tell,
});

byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  api.keepKey(byId("key").value.trim());
  follow();
});

addEventListener("hashchange", follow);
follow();
