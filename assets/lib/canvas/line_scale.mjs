/** The axis of lines through values that the job logged. Pure. */
import { formatNumber } from '../value_text.mjs';

const LOG_FROM = 20;  // greatest / least from which a linear axis hides the small values

/**
 * Linear, or logarithmic if some values are many times the others.
 * @param {{least: ArrayLike<number>, greatest: ArrayLike<number>}[]} series
 */
export function lineScale(series) {
  let [low, high] = [Infinity, -Infinity];
  for (const { least, greatest } of series) {
    least.forEach((value) => { if (value < low) low = value; });
    greatest.forEach((value) => { if (value > high) high = value; });
  }
  if (!(low <= high)) [low, high] = [0, 1];
  const isLog = low > 0 && high / low > LOG_FROM;
  const to = isLog ? Math.log10 : (value) => value;
  const back = isLog ? (value) => 10 ** value : (value) => value;
  const room = (to(high) - to(low)) * 0.06 || Math.abs(to(high)) * 0.05 || 0.5;
  const [from, until] = [to(low) - room, to(high) + room];
  return {
    isLog, share: (value) => Math.min(1, Math.max(0, (to(value) - from) / (until - from))),
    ticks: [0, 0.25, 0.5, 0.75, 1].map((at) => ({ at, text: formatNumber(Number(back(from + at * (until - from)).toPrecision(3))) })),
  };
}
