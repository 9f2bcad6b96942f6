/** A line chart over the iterations of training, as wide as its container. */

import { drawn, element } from "./dom.js";
import { count } from "./numbers.js";

const HEIGHT = 200;
const MARGIN = { top: 12, right: 14, bottom: 26, left: 52 };

/** A figure of `[iteration, value]` points; `marked` is the iteration whose value was kept. */
export function lineChart(title, points, marked = null) {
  const place = element("div", { class: "chart" });
  new ResizeObserver(() => {
    const width = place.clientWidth;
    if (width > 0) place.replaceChildren(drawing(title, points, marked, width));
  }).observe(place);
  return element("figure", {}, element("figcaption", {}, title), place);
}

function drawing(title, points, marked, width) {
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y);
  const end = xs.at(-1);
  const rows = ticks(Math.min(...ys), Math.max(...ys), 4);
  const columns = ticks(0, end, width < 360 ? 3 : 5).filter((value) => value <= end);
  const x = scale(0, end, MARGIN.left, width - MARGIN.right);
  const y = scale(rows[0], rows.at(-1), HEIGHT - MARGIN.bottom, MARGIN.top);
  const decimals = Math.max(0, -Math.floor(Math.log10(rows[1] - rows[0]) + 1e-9));
  const corners = points.map(([a, b]) => `${x(a).toFixed(1)} ${y(b).toFixed(1)}`);
  const kept = points.find(([iteration]) => iteration === marked) ?? points.at(-1);
  const [from, to] = [ys[0], ys.at(-1)].map((value) => value.toPrecision(4));
  const told = `${title} from ${from} to ${to} over ${count(end)} iterations`;
  return drawn(
    "svg",
    { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": told },
    ...rows.flatMap((value) => [
      drawn("path", { class: "grid", d: `M${MARGIN.left} ${y(value)}H${width - MARGIN.right}` }),
      label(MARGIN.left - 8, y(value) + 4, "end", value.toFixed(decimals).replace("-", "−")),
    ]),
    ...columns.map((value) => label(x(value), HEIGHT - 6, "middle", count(value))),
    drawn("path", { class: "line", d: `M${corners.join("L")}` }),
    drawn("circle", { class: "kept", cx: x(kept[0]), cy: y(kept[1]), r: 4 }),
  );
}

const label = (x, y, anchor, text) => drawn("text", { x, y, "text-anchor": anchor }, text);

/** A linear map from a range of values to a range of pixels. */
function scale(from, to, low, high) {
  return (value) => low + ((value - from) / (to - from || 1)) * (high - low);
}

/** About `wanted` round values whose first and last enclose the range. */
function ticks(low, high, wanted) {
  const rough = (high - low || Math.abs(high) || 1) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const first = Math.floor(low / step + 1e-9);
  const last = Math.max(first + 1, Math.ceil(high / step - 1e-9));
  return Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
}
