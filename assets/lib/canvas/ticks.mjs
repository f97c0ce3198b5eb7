/** Round numbers to label an axis with. Pure. */

/** Whole round numbers from `low` to `high`, about `most` of them, spaced by 1, 2 or 5 x 10^n. */
export function niceTicks(low, high, most) {
  const rough = Math.max(1, (high - low) / Math.max(1, most));
  const power = 10 ** Math.floor(Math.log10(rough));
  const spacing = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const ticks = [];
  for (let tick = Math.ceil(low / spacing) * spacing; tick <= high; tick += spacing) ticks.push(tick);
  return ticks;
}

/** Round values from `low` to `high`, about `most` of them; they may be fractions. */
export function roundTicks(low, high, most) {
  const rough = (high - low) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const spacing = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const first = Math.ceil(low / spacing);
  return Array.from({ length: Math.floor(high / spacing) - first + 1 }, (_, index) => Number(((first + index) * spacing).toPrecision(12)));
}
