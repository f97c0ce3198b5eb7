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
import { formatNumber } from '../../lib/value_text.mjs';

/** Steps shown on either side of a window: as many as it has, within these limits. */
const CONTEXT = { least: 20, most: 500 };

/** @returns {Losses} */
export const lossesOf = ({ arrays, meta }) => ({ ...arrays, ...meta });

/** First and last step of a window and the steps shown around it. */
export function around(first, last) {
  const context = Math.min(CONTEXT.most, Math.max(CONTEXT.least, last - first + 1));
  return [Math.max(0, first - context), last + context];
}

/** @param {Losses} losses of single steps @returns {Map<number, number>} */
const byStep = (losses) => new Map(Array.from(losses.first, (step, column) => [step, losses.mean[column]]));

const meanOf = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Standard deviation of single values, NaN below two. */
export function spreadOf(values) {
  const mean = meanOf(values);
  return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1));
}

/**
 * The window of a perturbation compared with another run, or with the steps before it if there is none.
 * @param {Losses} mine @param {?Losses} other steps around the window, one a column
 * @param {{first: number, last: number}} window @param {{first: number, last: number}[]} disturbed windows of
 *   other perturbations, whose steps are left out
 * @returns {{parts: Object<string, ?Part>, bad: number, isTwin: boolean, hasOther: boolean, expected: ?Function}}
 *   isTwin: the other run logged the same losses before the window, all of them; expected: step -> loss
 */
export function compare(mine, other, window, disturbed = []) {
  const [own, theirs] = [byStep(mine), other && byStep(other)];
  const isUndisturbed = (step) => disturbed.every(({ first, last }) => step < first || step > last);
  const isIn = {
    before: (step) => step < window.first && isUndisturbed(step), within: (step) => step >= window.first && step <= window.last,
    after: (step) => step > window.last && isUndisturbed(step),
  };
  const stepsOf = (name) => [...own.keys()].filter((step) => isIn[name](step) && Number.isFinite(own.get(step))
    && (!theirs || Number.isFinite(theirs.get(step))));
  const steps = Object.fromEntries(Object.keys(isIn).map((name) => [name, stepsOf(name)]));
  const line = theirs ? null : lineThrough(own, steps.before);
  const compareSteps = theirs ? paired(own, theirs, steps.before) : againstBefore(own, line);
  const parts = Object.fromEntries(Object.entries(steps).map(([name, all]) => [name, all.length ? compareSteps(all, name) : null]));
  return {
    parts, hasOther: Boolean(theirs), expected: line && line.at,
    isTwin: Boolean(theirs) && steps.before.length > 0 && steps.before.every((step) => own.get(step) === theirs.get(step)),
    bad: mine.bad.reduce((sum, count, column) => sum + (isIn.within(mine.first[column]) ? count : 0), 0),
  };
}

/** Compares step by step with another run; the noise is that of their difference before the window. */
function paired(own, theirs, before) {
  const differences = (steps) => steps.map((step) => own.get(step) - theirs.get(step));
  const spread = spreadOf(differences(before));
  return (steps) => ({
    count: steps.length, withIt: meanOf(steps.map((step) => own.get(step))), without: meanOf(steps.map((step) => theirs.get(step))),
    difference: meanOf(differences(steps)), error: Number.isFinite(spread) ? 2 * spread / Math.sqrt(steps.length) : null,
  });
}

/** A straight line through the losses of the steps before; null if there are too few. */
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

/** Compares with the line through the steps before, extrapolated; the noise is that of single steps around it. */
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

/** How far to trust the comparison, in a sentence or two. @param {?string} name of the run it is compared with */
export function reliabilityText({ parts, hasOther, isTwin, expected }, name) {
  const other = name && name[0].toUpperCase() + name.slice(1);
  if (!parts.within) return hasOther ? `${other} logged no loss in these steps.` : 'No loss was logged within the window.';
  if (!hasOther) {
    return expected
      ? `No other run is chosen: “without” is a straight line through the ${parts.before.count} steps before, extrapolated. `
        + 'Loss differs from batch to batch and does not fall in a straight line, so this is not a control. For a control, choose a run with the same seed.'
      : 'There are too few steps before the window to know what to expect: choose another run.';
  }
  if (!parts.before) return `${other} has no loss before the window, so it is unknown whether the two would be the same without the perturbation.`;
  if (isTwin) return `${other} logged exactly the same losses in the ${parts.before.count} steps before: later differences come from the perturbation, unless something else also differs between the two runs from there on.`;
  return `${other} is not a twin: in the ${parts.before.count} steps before, the two already differ by ${differenceText(parts.before)}. Compare the difference within the window with that.`;
}

/** Two points of the expected losses, to draw them. @returns {Losses} */
export function expectedLosses(expected, [first, last]) {
  const values = [expected(first), expected(last)];
  return { first: [first, last], last: [first, last], mean: values, least: values, greatest: values, bad: [0, 0] };
}

/** Column of a step, or the nearest column; -1 without any. @param {Losses} losses */
export function columnAt(losses, step) {
  let best = -1;
  let least = Infinity;
  for (let column = 0; column < losses.first.length; column++) {
    const distance = Math.max(losses.first[column] - step, step - losses.last[column], 0);
    if (distance < least) [best, least] = [column, distance];
  }
  return best;
}
