/** Numbers as people read them. */

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });

export const count = (value) => whole.format(value);

/** "1 item", "1,204 items". */
export const counted = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

/** Three significant digits of a probability, in percent. */
export function percent(probability) {
  const value = 100 * probability;
  if (value === 0 || value >= 99.95) return `${value.toFixed(0)}%`;
  if (value < 1e-4) return `${value.toExponential(1)}%`;
  return `${value.toPrecision(value < 0.1 ? 2 : 3)}%`;
}

/** With its sign, and a minus that is as wide as the plus. */
export function signed(value) {
  const digits = Math.abs(value).toFixed(2);
  return digits === "0.00" ? digits : (value < 0 ? "−" : "+") + digits;
}

/** A setting, a metric or whatever else a card may hold. */
export function plainly(value) {
  if (value === null) return "none";
  if (value === true) return "yes";
  if (value === false) return "no";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return count(value);
  return Math.abs(value) < 1e-4 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}
