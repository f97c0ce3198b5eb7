/** Numbers and places on the page Fleet. Pure: no DOM. */

export const NONE = '\u2013';

/** Less than this is said to be less: 0.00009, never 9e-8. */
const LEAST = 0.00001;

const COUNT = new Intl.NumberFormat('en');
const UNITS = [[1e12, 'T'], [1e9, 'B'], [1e6, 'M'], [1e3, 'k']];

/** @param {?number} value */
export const count = (value) => (value === null || value === undefined ? NONE : COUNT.format(value));

/** Share in percent, two significant digits below 10 %. @param {?number} share */
export function percent(share) {
  if (share === null || share === undefined) return NONE;
  const value = 100 * share;
  if (value === 0) return '0 %';
  if (value < LEAST) return '<0.00001 %';
  return value >= 9.95 ? `${Math.round(value)} %` : `${Number(value.toPrecision(2))} %`;
}

/** @param {?number} value */
export function hours(value) {
  if (value === null || value === undefined) return NONE;
  if (value > 0 && value < LEAST) return '<0.00001';
  return value >= 10 ? COUNT.format(Math.round(value)) : String(Number(value.toPrecision(2)));
}

/** Runs: '1 run', '1,240 runs'. @param {number} number */
export const runs = (number) => `${count(number)} ${number === 1 ? 'run' : 'runs'}`;

/** How many hosts were compared, in how many runs. @param {number} judged @param {number} numRuns */
export const comparedText = (judged, numRuns) => `${count(judged)} host${judged === 1 ? '' : 's'} compared in ${runs(numRuns)}, always all of the folder.`;

/** Of how many runs a number is not known, and the first sentence of why. @param {string} why @param {number} number */
export const unknownText = (why, number) => `Not known of ${runs(number)}: ${why.split('. ')[0].replace(/\.$/, '')}.`;

/** A slowdown. @param {?number} S */
export const slowdown = (S) => (S === null || S === undefined ? NONE : S.toFixed(3));

/** 3 significant digits with a unit. @param {?number} ms */
export function duration(ms) {
  if (ms === null || ms === undefined) return NONE;
  if (ms >= 60_000) return `${Number((ms / 60_000).toPrecision(3))} min`;
  return ms >= 1000 ? `${Number((ms / 1000).toPrecision(3))} s` : `${Number(ms.toPrecision(3))} ms`;
}

/** Number of parameters: '7B', '405B'. @param {number} number */
export function parameters(number) {
  if (number === null || number === undefined) return NONE;
  const [factor, unit] = UNITS.find(([size]) => number >= size) ?? [1, ''];
  return `${Number((number / factor).toPrecision(3))}${unit}`;
}

/** Day of a time, UTC. @param {?number} ms since 1970 */
export const day = (ms) => (ms === null || ms === undefined ? NONE : new Date(ms).toISOString().slice(0, 10));

/** Powers of ten from the one at or below the least to the one at or above the greatest. @param {number[]} values */
export function decades(values) {
  const low = Math.floor(Math.log10(Math.min(...values)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values))));
  return Array.from({ length: high - low + 1 }, (_, index) => 10 ** (low + index));
}

/** Where a value lies between the first and the last tick of a logarithmic axis, 0 to 1. */
export function placeOf(value, ticks) {
  const [low, high] = [Math.log10(ticks[0]), Math.log10(ticks[ticks.length - 1])];
  return Math.min(Math.max((Math.log10(value) - low) / (high - low), 0), 1);
}

/** Round ticks from 0 to at least `most`, at most five. @param {number} most */
export function ticksTo(most) {
  const step = [0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1, 2, 5, 10, 20, 50].find((one) => most / one <= 4) ?? most / 4;
  const number = Math.max(1, Math.ceil(most / step - 1e-9));
  return Array.from({ length: number + 1 }, (_, index) => Number((index * step).toPrecision(6)));
}

/** Causes with a colour of their own: those that cost most over all periods; the rest is drawn together. */
export function drawnCauses(periods, most) {
  const total = {};
  for (const { lost } of periods) for (const [cause, value] of Object.entries(lost)) total[cause] = (total[cause] ?? 0) + value;
  return Object.keys(total).filter((cause) => total[cause] > 0)
    .sort((a, b) => total[b] - total[a] || (a < b ? -1 : 1)).slice(0, most);
}

/** Shares of a period's rank-hours by cause, in the order of `drawn`, then what the others took. */
export function stack(period, drawn) {
  if (!(period.rank_hours > 0)) return [];
  const parts = drawn.map((cause) => (period.lost[cause] ?? 0) / period.rank_hours);
  const all = Object.values(period.lost).reduce((sum, value) => sum + value, 0) / period.rank_hours;
  return [...parts, Math.max(0, all - parts.reduce((sum, value) => sum + value, 0))];
}

/** One line on what is shown. */
export function summary(answer) {
  const { fleet, num_all: numAll } = answer;
  const which = fleet.num_runs === numAll ? runs(numAll) : `${count(fleet.num_runs)} of ${runs(numAll)}`;
  if (!fleet.num_runs) return which;
  const lost = fleet.lost_share === null ? 'wall time unknown' : `${percent(fleet.lost_share)} of ${hours(fleet.rank_hours)} rank-hours lost to known causes`;
  const elsewhere = answer.num_elsewhere ? `; summaries of ${runs(answer.num_elsewhere)} are kept in the server's cache, as their folders cannot be written` : '';
  return `${which}, ${lost}${elsewhere}`;
}

/** What is still being done; '' nothing. */
export function progress({ num_missing: missing, current }) {
  if (!missing) return '';
  const now = current === null ? '' : `: ${current}`;
  return `Summarising ${runs(missing)}${now}. Numbers below are of those summarised so far.`;
}
