/** Values and lines of what was sampled of machines. Pure. */

const PREFIXES = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']];

/** A value in its unit, three digits: 1,110 MHz, 2.5 GB/s, unknown. */
export function valueText(value, unit) {
  if (value === null || value === undefined || Number.isNaN(value)) return 'not recorded';
  if (unit === 'of the time') return `${digits(100 * value)} % ${unit}`;
  if (['B', 'B/s', 'bit/s'].includes(unit)) {
    for (const [factor, prefix] of PREFIXES) {
      if (Math.abs(value) >= factor) return `${digits(value / factor)} ${prefix}${unit}`;
    }
  }
  return `${digits(value)} ${unit}`.trimEnd();
}

function digits(value) {
  const size = Math.abs(value);
  if (size >= 100) return Math.round(value).toLocaleString('en');
  return size === 0 ? '0' : String(Number(value.toPrecision(3)));
}

/**
 * Points of a line in a box, one list for each part between gaps: a value that is unknown breaks it.
 * @param {number[]} at @param {(?number)[]} values @returns {[number, number][][]}
 */
export function linePoints(at, values, extent, width, height) {
  const known = values.filter((value) => value !== null);
  const [low, high] = [Math.min(0, ...known), Math.max(...known, Math.min(0, ...known) + 1e-9)];
  const [from, to] = extent;
  const parts = [[]];
  at.forEach((time, i) => {
    if (values[i] === null) {
      if (parts.at(-1).length) parts.push([]);
      return;
    }
    parts.at(-1).push([
      (width * (time - from)) / Math.max(to - from, 1e-9),
      height - 1 - ((height - 2) * (values[i] - low)) / (high - low),
    ]);
  });
  return parts.filter((part) => part.length);
}
