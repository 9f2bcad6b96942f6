/** The state of the page is its address: `#user=7`, `#item=3&item=14`, `#model` or empty. */

/** Ids in an address are text; the service accepts integer ids as text. */
export function read() {
  const text = location.hash.slice(1);
  const parameters = new URLSearchParams(text);
  const items = [...new Set(parameters.getAll("item"))];
  if (text === "model") return { view: "model", person: null };
  if (parameters.has("user")) return { view: "people", person: { user: parameters.get("user") } };
  return { view: "people", person: items.length ? { items } : null };
}

export const ofUser = (id) => `#${new URLSearchParams({ user: id })}`;
export const ofItems = (ids) => `#${new URLSearchParams(ids.map((id) => ["item", id]))}`;

/** Set the address; the page follows it. */
export function go(address) {
  location.hash = address;
}
