/** A search field with a list under it, as the ARIA authoring practices describe a combobox. */

import { byId, element, settled } from "./dom.js";

const PAUSE = 120; // milliseconds without a key before a search

/**
 * `search(query, signal)` returns options `{id, name, note}`, `pick(id)` receives the selected one
 * and `none(query)` returns the message for an empty result.
 */
export function combobox(input, { search, pick, none, onError }) {
  const list = byId(input.getAttribute("aria-controls"));
  const status = byId("status");
  let options = [];
  let active = -1;
  let asking = new AbortController();
  let listed = null; // the query that the options answer

  const isOpen = () => !list.hidden;
  const openSoon = settled(PAUSE, () => document.activeElement === input && open());

  function close() {
    openSoon.cancel();
    asking.abort();
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    activate(-1);
  }

  function activate(index) {
    list.children[active]?.setAttribute("aria-selected", "false");
    active = index;
    const option = index < 0 ? null : list.children[index];
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) input.setAttribute("aria-activedescendant", option.id);
    else input.removeAttribute("aria-activedescendant");
  }

  async function open() {
    asking.abort();
    asking = new AbortController();
    const { signal } = asking;
    const query = input.value.trim();
    try {
      const found = await search(query, signal);
      if (signal.aborted) return;
      [options, listed] = [found, query];
    } catch (error) {
      if (error.name !== "AbortError") {
        close();
        onError(error);
      }
      return;
    }
    show();
  }

  function show() {
    const nothing = element("li", { class: "nothing", role: "presentation" }, none(listed));
    list.replaceChildren(...(options.length ? options.map(shown) : [nothing]));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    activate(-1);
    const found = `${options.length} found. Use the arrow keys.`;
    status.textContent = options.length ? found : none(listed);
  }

  function shown(option, index) {
    return element(
      "li",
      {
        id: `${list.id}-${index}`,
        role: "option",
        "aria-selected": "false",
        onpointerdown: (event) => event.preventDefault(), // the focus stays in the field
        onclick: () => choose(option.id),
      },
      element("span", { class: "name" }, option.name),
      element("span", { class: "note" }, option.note),
    );
  }

  function choose(id) {
    close();
    input.value = "";
    pick(id);
  }

  async function enter() {
    const query = input.value.trim();
    if (!query && active < 0) return;
    if (listed !== query || !isOpen()) await open();
    const chosen = options[active] ?? options[0];
    if (isOpen() && chosen) choose(chosen.id);
  }

  const keys = {
    ArrowDown: () => (isOpen() ? activate(Math.min(active + 1, options.length - 1)) : open()),
    ArrowUp: () => activate(Math.max(active - 1, -1)),
    Enter: enter,
    Escape: () => {
      if (!isOpen()) input.value = "";
      close();
    },
  };

  input.addEventListener("input", openSoon);
  input.addEventListener("click", () => isOpen() || open());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.isComposing) return;
    event.preventDefault();
    keys[event.key]();
  });
}
