/** A line over the iterations of a training, drawn as wide as its place is. */

import { drawn, element } from "./dom.js";
import { count } from "./numbers.js";

const HEIGHT = 200;
const MARGIN = { top: 12, right: 14, bottom: 26, left: 52 };

/** A figure of `[iteration, value]` points; `marked` is the iteration whose value was kept. */
export function lineChart(title, points, marked = null) {
  const place = element("div", { class: "chart" });
  const redraw = () => place.clientWidth > 0 && place.replaceChildren(drawing(title, points, marked, place.clientWidth));
  new ResizeObserver(redraw).observe(place);
  return element("figure", {}, element("figcaption", {}, title), place);
}

function drawing(title, points, marked, width) {
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y);
  const rows = ticks(Math.min(...ys), Math.max(...ys), 4);
  const columns = ticks(0, Math.max(...xs), width < 360 ? 3 : 5).filter((x) => x <= Math.max(...xs));
  const x = scale(0, Math.max(...xs), MARGIN.left, width - MARGIN.right);
  const y = scale(rows[0], rows.at(-1), HEIGHT - MARGIN.bottom, MARGIN.top);
  const decimals = Math.max(0, -Math.floor(Math.log10(rows[1] - rows[0]) + 1e-9));
  const path = points.map(([a, b], i) => `${i ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");
  const kept = points.find(([iteration]) => iteration === marked) ?? points.at(-1);
  const told = `${title} from ${ys[0].toPrecision(4)} to ${ys.at(-1).toPrecision(4)} over ${count(xs.at(-1))} iterations`;
  return drawn(
    "svg",
    { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": told },
    ...rows.flatMap((value) => [
      drawn("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) }),
      drawn("text", { x: MARGIN.left - 8, y: y(value) + 4, "text-anchor": "end" }, minus(value.toFixed(decimals))),
    ]),
    ...columns.map((value) =>
      drawn("text", { x: x(value), y: HEIGHT - 6, "text-anchor": "middle" }, count(value)),
    ),
    drawn("path", { class: "line", d: path }),
    drawn("circle", { class: "kept", cx: x(kept[0]), cy: y(kept[1]), r: 4 }),
  );
}

const scale = (from, to, low, high) => (value) => low + ((value - from) / (to - from || 1)) * (high - low);

const minus = (text) => text.replace("-", "−");

/** About `wanted` round values whose first and last enclose the range. */
function ticks(low, high, wanted) {
  const rough = (high - low || Math.abs(high) || 1) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const first = Math.floor(low / step + 1e-9);
  const last = Math.max(first + 1, Math.ceil(high / step - 1e-9));
  return Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
}
