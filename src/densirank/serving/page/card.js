/** The model card: data, training, metrics and settings. */

import * as api from "./api.js";
import { lineChart } from "./chart.js";
import { byId, element } from "./dom.js";
import { count, counted, percentsUpTo, plainly } from "./numbers.js";

let served = null; // the fingerprint of the model whose card is shown

/** Show the card of the served model, unless it is shown already. */
export async function showCard(fingerprint = null) {
  if (served !== null && fingerprint === served) return;
  const card = await api.model();
  served = card.model;
  const { users, items, pairs } = card.data;
  byId("served").textContent = [
    card.method,
    counted(users, "user"),
    counted(items, "item"),
    `densirank ${card.densirank}`,
  ].join(" · ");
  byId("model-title").textContent = card.method;
  byId("model-summary").textContent = card.summary;
  const share = pairs / (users * items);
  const data = {
    users,
    items,
    "user–item pairs": pairs,
    "share of all pairs": percentsUpTo(share)(share),
    "order in time": card.data.ordered ? "known" : "not known",
    fingerprint: String(card.data.fingerprint).slice(0, 16),
  };
  const behind = {
    model: card.model,
    created: moment.format(new Date(card.created)),
    "densirank version": card.densirank,
    ...under("calibration", card.calibration ?? "none"),
    ...under("index", card.index ?? "exact search, no index"),
  };
  byId("model-card").replaceChildren(
    part("Data", table(data)),
    part("Served", table(behind)),
    part("Training", ...training(card.training)),
    part("Metrics", metrics(card)),
    part("Settings", table({ seed: card.seed, ...card.settings })),
  );
}

const moment = new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeStyle: "short" });

function metrics({ metrics: kept, training }) {
  const told = kept ? under("", kept) : {};
  const { attempts, chosen } = training.automatic ?? {};
  const judged = attempts?.[chosen]?.["validation_ndcg@20"];
  const validation = training["best_validation_ndcg@20"] ?? judged;
  if (validation != null) told["nDCG@20 on validation data"] = validation;
  const nothing = "None yet: 'densirank evaluate MODEL TEST --keep' puts them here.";
  return Object.keys(told).length ? table(told) : note(nothing);
}

function training({ iterations, seconds, best_iteration: best, reports = [] }) {
  if (!iterations) return [note("This method has a closed form; nothing was trained.")];
  const isEarlier = best != null && best !== iterations;
  const kept = isEarlier ? `; the vectors of iteration ${count(best)} were kept` : "";
  const curve = (key) =>
    reports
      .filter((report) => report[key] != null)
      .map((report) => [report.iteration, report[key]]);
  const charts = [
    ["Loss", curve("loss")],
    ["Validation nDCG@20", curve("validation"), best],
  ].filter(([, points]) => points.length > 1);
  return [
    note(`${counted(iterations, "iteration")} in ${seconds.toFixed(1)} s${kept}.`),
    element("div", { class: "charts" }, ...charts.map((chart) => lineChart(...chart))),
  ];
}

const note = (text) => element("p", { class: "note" }, text);

function part(title, ...children) {
  return element("section", { class: "part" }, element("h2", {}, title), ...children);
}

function table(told) {
  const rows = Object.entries(told).map(([name, value]) =>
    element(
      "div",
      {},
      element("dt", {}, name.replaceAll("_", " ")),
      element("dd", {}, plainly(value)),
    ),
  );
  return element("dl", {}, ...rows);
}

/** One level of a nested object as `outer inner: value` entries. */
function under(name, value) {
  if (value === null || typeof value !== "object") return { [name]: value };
  const inner = Object.entries(value).map(([key, deep]) => under(`${name} ${key}`.trim(), deep));
  return Object.assign({}, ...inner);
}
