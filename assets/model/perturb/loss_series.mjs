/**
 * Losses over the steps, and a window of them with and without a perturbation. Pure.
 *
 * @typedef {Object} Losses answer of model/losses: a column stands for the steps first..last
 * @property {Float64Array} first @property {Float64Array} last @property {Float64Array} mean NaN: none is finite
 * @property {Float64Array} least @property {Float64Array} greatest @property {Uint32Array} bad not finite
 * @typedef {Object} Part of a comparison: before, within or after
 * @property {number} count steps compared @property {number} withIt @property {number} without means
 * @property {number} difference @property {?number} error two standard errors; null: too few steps
 */
import { formatNumber } from '../shared/statistic_scale.mjs';

/** Steps on either side of a window: as many as it has, this many at least and at most. */
const CONTEXT = { least: 20, most: 500 };
const LOG_FROM = 20;  // greatest / least from which a linear axis shows nothing of the small ones

/** @returns {Losses} */
export const lossesOf = ({ arrays, meta }) => ({ ...arrays, ...meta });

/** First and last step of a window and what stands around it. */
export function around(first, last) {
  const context = Math.min(CONTEXT.most, Math.max(CONTEXT.least, last - first + 1));
  return [Math.max(0, first - context), last + context];
}

/** @param {Losses} losses of single steps @returns {Map<number, number>} */
const byStep = (losses) => new Map(Array.from(losses.first, (step, at) => [step, losses.mean[at]]));

const meanOf = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Standard deviation of single values, NaN below two. */
export function spreadOf(values) {
  const mean = meanOf(values);
  return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1));
}

/**
 * The window of a perturbation against another run, or against the steps before it where there is none.
 * @param {Losses} mine @param {?Losses} other steps around the window, one a column
 * @param {{first: number, last: number}} window @param {{first: number, last: number}[]} disturbed windows of
 *   other perturbations: no steps to compare with
 * @returns {{parts: Object<string, ?Part>, bad: number, isTwin: boolean, hasOther: boolean, expected: ?Function}}
 *   isTwin: the other run logged the same losses before the window, all of them; expected: step -> loss
 */
export function compare(mine, other, window, disturbed = []) {
  const [own, theirs] = [byStep(mine), other && byStep(other)];
  const isCalm = (step) => disturbed.every(({ first, last }) => step < first || step > last);
  const isIn = {
    before: (step) => step < window.first && isCalm(step), within: (step) => step >= window.first && step <= window.last,
    after: (step) => step > window.last && isCalm(step),
  };
  const stepsOf = (name) => [...own.keys()].filter((step) => isIn[name](step) && Number.isFinite(own.get(step))
    && (!theirs || Number.isFinite(theirs.get(step))));
  const steps = Object.fromEntries(Object.keys(isIn).map((name) => [name, stepsOf(name)]));
  const line = theirs ? null : lineThrough(own, steps.before);
  const judge = theirs ? paired(own, theirs, steps.before) : againstBefore(own, line);
  const parts = Object.fromEntries(Object.entries(steps).map(([name, all]) => [name, all.length ? judge(all, name) : null]));
  return {
    parts, hasOther: Boolean(theirs), expected: line && line.at,
    isTwin: Boolean(theirs) && steps.before.length > 0 && steps.before.every((step) => own.get(step) === theirs.get(step)),
    bad: mine.bad.reduce((sum, count, at) => sum + (isIn.within(mine.first[at]) ? count : 0), 0),
  };
}

/** Step by step against another run; the noise is that of their difference before. */
function paired(own, theirs, before) {
  const differences = (steps) => steps.map((step) => own.get(step) - theirs.get(step));
  const spread = spreadOf(differences(before));
  return (steps) => ({
    count: steps.length, withIt: meanOf(steps.map((step) => own.get(step))), without: meanOf(steps.map((step) => theirs.get(step))),
    difference: meanOf(differences(steps)), error: Number.isFinite(spread) ? 2 * spread / Math.sqrt(steps.length) : null,
  });
}

/** A straight line through the losses of the steps before; null: they are too few. */
function lineThrough(own, before) {
  if (before.length < 3) return null;
  const middle = meanOf(before);
  const level = meanOf(before.map((step) => own.get(step)));
  const width = before.reduce((sum, step) => sum + (step - middle) ** 2, 0);
  const slope = before.reduce((sum, step) => sum + (step - middle) * own.get(step), 0) / width;
  const rest = before.reduce((sum, step) => sum + (own.get(step) - level - slope * (step - middle)) ** 2, 0);
  const spread = Math.sqrt(rest / (before.length - 2));
  return {
    at: (step) => level + slope * (step - middle),
    errorOf: (steps) => 2 * spread * Math.sqrt(1 / steps.length + 1 / before.length + (meanOf(steps) - middle) ** 2 / width),
  };
}

/** Against the line through the steps before, continued; the noise is that of single steps about it. */
function againstBefore(own, line) {
  return (steps, name) => {
    const withIt = meanOf(steps.map((step) => own.get(step)));
    const without = line ? meanOf(steps.map(line.at)) : NaN;
    return { count: steps.length, withIt, without, difference: withIt - without, error: line && name !== 'before' ? line.errorOf(steps) : null };
  };
}

/** Whether a difference is more than noise: beyond two standard errors. @param {?Part} part */
export const isClear = (part) => part !== null && part.error !== null && Math.abs(part.difference) > part.error;

/** "+0.0312 ± 0.004" */
export function differenceText(part) {
  if (!part || Number.isNaN(part.difference)) return 'not known';
  const sign = part.difference > 0 ? '+' : '';
  const error = !part.error ? '' : ` ± ${formatNumber(Number(part.error.toPrecision(2)))}`;
  return `${sign}${formatNumber(Number(part.difference.toPrecision(3)))}${error}`;
}

/** What the comparison is worth, in a sentence or two. @param {?string} name of what it is compared with */
export function worth({ parts, hasOther, isTwin, expected }, name) {
  const other = name && name[0].toUpperCase() + name.slice(1);
  if (!parts.within) return hasOther ? `${other} logged no loss in these steps.` : 'No loss was logged within the window.';
  if (!hasOther) {
    return expected
      ? `There is no run without it here: “without” is a straight line through the ${parts.before.count} steps before, continued. `
        + 'Loss differs from batch to batch and does not fall in straight lines, so this is no control; choose a run with the same seed to have one.'
      : 'There are too few steps before the window to tell what to expect: choose another run.';
  }
  if (!parts.before) return `${other} has no loss before the window, so whether the two are alike without the perturbation is not known.`;
  if (isTwin) return `${other} logged exactly the same losses in the ${parts.before.count} steps before: what differs from the window on comes from it, unless the two runs were treated differently from there on in other ways, too.`;
  return `${other} is no twin: in the ${parts.before.count} steps before the two differ by ${differenceText(parts.before)} already. Read the difference within against that.`;
}

/** An axis for losses: linear, or logarithmic where some are many times the others. */
export function lossScale(series) {
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

/** Two points of what is expected, to be drawn. @returns {Losses} */
export function expectedLosses(expected, [first, last]) {
  const values = [expected(first), expected(last)];
  return { first: [first, last], last: [first, last], mean: values, least: values, greatest: values, bad: [0, 0] };
}

/** Column of a step, or the nearest one; -1: there is none. @param {Losses} losses */
export function columnAt(losses, step) {
  let best = -1;
  let away = Infinity;
  for (let at = 0; at < losses.first.length; at++) {
    const distance = Math.max(losses.first[at] - step, step - losses.last[at], 0);
    if (distance < away) [best, away] = [at, distance];
  }
  return best;
}
