/** The JSON API of the service; every failure becomes an error with a readable message. */

const KEY = "densirank-key";
const titles = new Map(); // of every item in a response, by its id as text

/** An error of the service, or a failure to reach it. */
export class Refusal extends Error {
  constructor(code, message) {
    super(sentence(message));
    this.code = code;
  }
}

export const keepKey = (key) => sessionStorage.setItem(KEY, key);
export const hasKey = () => sessionStorage.getItem(KEY) !== null;

export const model = () => ask("v1/model");
export const user = (id, signal) => ask(`v1/users/${encodeURIComponent(id)}`, { signal });
export const users = (query, limit, signal) => search("users", query, limit, signal);
export const items = (query, limit, signal) => search("items", query, limit, signal);
export const similar = (id, k) => ask(`v1/items/${encodeURIComponent(id)}/similar?k=${k}`);

/** The result for a person: `{user: id}`, or `{items: [ids]}` for a history. */
export async function recommend(person, options, signal) {
  const who = person.items ? { histories: [person.items] } : { users: [person.user] };
  const answer = await ask("v1/recommend", { body: { ...who, ...options }, signal });
  return { model: answer.model, ...answer.results[0] };
}

/** The past items that contribute most to the score of an item. */
export async function reasons(person, item) {
  const { items: listed } = await recommend(person, { k: 1, items: [item], explain: true });
  return listed[0]?.because ?? [];
}

/** The title of an item, or its id if it has none. */
export const nameOf = (item) => item.title || String(item.id);

/** The items of these ids with their titles, which are requested if they are not known yet. */
export const named = (ids, signal) =>
  Promise.all(
    ids.map(async (id) => {
      if (!titles.has(id)) await items(id, 1, signal);
      return { id, title: titles.get(id) ?? null };
    }),
  );

function search(what, query, limit, signal) {
  const parameters = new URLSearchParams({ query: query.trim().slice(0, 100), limit });
  return ask(`v1/${what}?${parameters}`, { signal }).then((answer) => answer[what]);
}

async function ask(path, { body, signal } = {}) {
  const headers = { Accept: "application/json" };
  if (hasKey()) headers.Authorization = `Bearer ${sessionStorage.getItem(KEY)}`;
  if (body) headers["Content-Type"] = "application/json";
  const method = body ? "POST" : "GET";
  let response, answer;
  try {
    response = await fetch(path, { method, headers, signal, body: body && JSON.stringify(body) });
    answer = JSON.parse(await response.text(), exactly);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal("unreachable", response ? unreadable(response) : UNREACHABLE);
  }
  if (response.ok) return answer;
  throw new Refusal(answer.error?.code, answer.error?.message ?? unreadable(response));
}

const UNREACHABLE = "The service does not answer. It may have stopped, or the network is down.";
const unreadable = ({ status }) => `The service's answer (status ${status}) cannot be read.`;

/** Integer ids above 2^53 stay text; titles are stored. */
function exactly(key, value, context) {
  if (typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value)) {
    return /^-?\d+$/.test(context?.source) ? context.source : value;
  }
  if (value?.title !== undefined) titles.set(String(value.id), value.title);
  return value;
}

function sentence(text) {
  const capital = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(capital) ? capital : `${capital}.`;
}
