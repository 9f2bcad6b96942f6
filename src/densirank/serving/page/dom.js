/** Functions that create elements: titles are always text, never markup. */

/** An element with attributes (`onclick` and its like are listeners) and children. */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function drawn(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

/** A bar whose length is a share of the longest one; the number is shown as text next to it. */
export function bar(share, kind = "") {
  const node = element("span", { class: `bar ${kind}`, "aria-hidden": "true" });
  node.style.setProperty("--share", Math.min(1, Math.max(0, share)));
  return node;
}

/** Replace the children of an element; if one of them had the focus, it moves to `heir`. */
export function refill(container, children, heir) {
  const hadFocus = container.contains(document.activeElement);
  container.replaceChildren(...children);
  if (hadFocus) heir.focus();
}

/** A debounced function; `cancel` drops a pending call. */
export function settled(milliseconds, call) {
  let timer;
  const later = (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...values), milliseconds);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}

export const byId = (id) => document.getElementById(id);
