/** Number formats. */

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });

export const count = (value) => whole.format(value);

/** "1 item", "1,204 items". */
export const counted = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

/** A format of percentages in which a column lines up and the largest value has 3 digits. */
export function percentsUpTo(largest) {
  const decimals = Math.min(9, Math.max(2, 2 - Math.floor(Math.log10(100 * largest))));
  const least = 10 ** -decimals;
  return (probability) => {
    const value = 100 * probability;
    const tooSmall = value > 0 && value < least;
    return `${tooSmall ? "<" : ""}${(tooSmall ? least : value).toFixed(decimals)}%`;
  };
}

/** A number with its sign, and a minus as wide as the plus. */
export function signed(value) {
  const digits = Math.abs(value).toFixed(2);
  return digits === "0.00" ? digits : (value < 0 ? "−" : "+") + digits;
}

/** A value of the model card. */
export function plainly(value) {
  if (value === null) return "none";
  if (value === true) return "yes";
  if (value === false) return "no";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return count(value);
  return Math.abs(value) < 1e-4 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}
