/** Where the bars of the section MFU lie. Pure. */

/**
 * Rows of the waterfall: the peak, the parts from left to right below it, what is left. All in shares of the whole.
 * @param {{mfu: ?number, bars: {name: string, title: string, share: number}[]}} fall of api/run/RUN/mfu
 * @returns {{name: string, title: string, share: number, from: number, to: number}[]} from, to: 0 to 1
 */
export function waterfallRows({ mfu, bars }) {
  let right = 1;
  const parts = bars.map((bar) => {
    const to = right;
    right = Math.max(right - bar.share, 0);
    return { ...bar, from: right, to };
  });
  const whole = { name: 'peak', title: mfu === null ? 'Time of the devices' : 'Peak of the devices', share: 1, from: 0, to: 1 };
  const left = mfu === null ? [] : [{ name: 'mfu', title: 'MFU', share: mfu, from: 0, to: mfu }];
  return [whole, ...parts, ...left];
}

/**
 * Bars of changes around a common zero.
 * @param {{points: number, low: number, high: number}[]} changes
 * @returns {{zero: number, bars: {from: number, to: number, low: number, high: number}[]}} all 0 to 1
 */
export function changeBars(changes) {
  const least = Math.min(0, ...changes.map(({ low, points }) => Math.min(low, points)));
  const most = Math.max(0, ...changes.map(({ high, points }) => Math.max(high, points)));
  const place = (value) => (most > least ? (value - least) / (most - least) : 0);
  const zero = place(0);
  return {
    zero,
    bars: changes.map(({ points, low, high }) => ({
      from: Math.min(zero, place(points)), to: Math.max(zero, place(points)), low: place(low), high: place(high),
    })),
  };
}
