/** The model card: what was learnt, from what, how, and how well. */

import * as api from "./api.js";
import { lineChart } from "./chart.js";
import { byId, element } from "./dom.js";
import { count, counted, percentsUpTo, plainly } from "./numbers.js";

let served = null; // the fingerprint of the model whose card is shown

/** Show the card of what is served now, unless it is known to be there already. */
export async function showCard(fingerprint = null) {
  if (served !== null && fingerprint === served) return;
  const card = await api.model();
  served = card.model;
  const { users, items, pairs } = card.data;
  byId("served").textContent = `${card.method} · ${counted(users, "user")} · ${counted(items, "item")} · densirank ${card.densirank}`;
  byId("model-title").textContent = card.method;
  byId("model-summary").textContent = card.summary;
  byId("model-card").replaceChildren(
    part("Data", table({
      users: count(users),
      items: count(items),
      "user–item pairs": count(pairs),
      "share of all pairs": percentsUpTo(pairs / (users * items))(pairs / (users * items)),
      "order in time": card.data.ordered ? "known" : "not known",
      fingerprint: brief(card.data.fingerprint),
    })),
    part("Served", table({
      model: card.model,
      created: new Date(card.created).toLocaleString("en-GB", { dateStyle: "long", timeStyle: "short" }),
      "densirank version": card.densirank,
      ...under("calibration", card.calibration ?? "none"),
      ...under("index", card.index ?? "exact search, no index"),
    })),
    part("Training", ...training(card.training)),
    part("Metrics", metrics(card)),
    part("Settings", table({ seed: card.seed, ...card.settings })),
  );
}

function metrics({ metrics: kept, training: { "best_validation_ndcg@20": validation } }) {
  const told = kept ? under("", kept) : {};
  if (validation != null) told["nDCG@20 on validation data"] = validation;
  const nothing = "No metrics were kept with this model: it was fitted without validation data.";
  return Object.keys(told).length ? table(told) : note(nothing);
}

function training({ iterations, seconds, best_iteration: best, reports = [] }) {
  if (!iterations) return [note("This method has a closed form; nothing was trained.")];
  const curve = (key) => reports.filter((report) => report[key] != null).map((report) => [report.iteration, report[key]]);
  const charts = [["Loss", curve("loss")], ["Validation nDCG@20", curve("validation"), best]];
  return [
    note(`${counted(iterations, "iteration")} in ${seconds.toFixed(1)} s` +
      (best && best !== iterations ? `; the vectors of iteration ${count(best)} were kept.` : ".")),
    element("div", { class: "charts" }, ...charts.filter(([, points]) => points.length > 1).map((chart) => lineChart(...chart))),
  ];
}

const note = (text) => element("p", { class: "note" }, text);
const part = (title, ...children) => element("section", { class: "part" }, element("h2", {}, title), ...children);

function table(told) {
  const rows = Object.entries(told).map(([name, value]) =>
    element("div", {}, element("dt", {}, name.replaceAll("_", " ")), element("dd", {}, plainly(value))),
  );
  return element("dl", {}, ...rows);
}

/** One level of a nested object as `outer inner: value` entries. */
function under(name, value) {
  if (value === null || typeof value !== "object") return { [name]: value };
  const inner = Object.entries(value).map(([key, deep]) => under(`${name} ${key}`.trim(), deep));
  return Object.assign({}, ...inner);
}

const brief = (fingerprint) => String(fingerprint).slice(0, 16);
