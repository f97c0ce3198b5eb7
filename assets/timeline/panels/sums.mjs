/** Sums by kind of an area or window, as a table; the arithmetic is pure. */
import { labelOf } from '../../lib/canvas/kind_colours.mjs';
import { formatNs } from '../../lib/canvas/time_scale.mjs';
import { make } from '../../lib/dom.mjs';
import { table } from './dom.mjs';

const MOST_COLUMNS = 8;
const IDLE = ['waiting', 'upstream', 'bubble', 'not_visible'];

/**
 * Kinds that took time, greatest first; idle kinds last.
 * @param {{ranks: number[], kinds: string[], time_ns: number[][], count: number[][]}} area
 * @returns {{kind: string, time: number, count: number, perRank: number[]}[]}
 */
export function kindSums(area) {
  const sums = area.kinds.map((kind, k) => ({
    kind,
    perRank: area.time_ns.map((row) => row[k]),
    time: area.time_ns.reduce((sum, row) => sum + row[k], 0),
    count: area.count.reduce((sum, row) => sum + row[k], 0),
  })).filter((sum) => sum.time > 0 || sum.count > 0);
  const isIdle = (sum) => IDLE.includes(sum.kind);
  return sums.sort((a, b) => isIdle(a) - isIdle(b) || b.time - a.time);
}

/** Least, median and greatest value, and the rank with the greatest. */
export function spread(perRank, ranks) {
  const sorted = [...perRank].sort((a, b) => a - b);
  const most = perRank.indexOf(sorted[sorted.length - 1]);
  return { least: sorted[0], median: sorted[sorted.length >> 1], most: perRank[most], rank: ranks[most] };
}

/** @param {number} lengthNs of the window, to compute shares @param {Object} meta of the tile */
export function sumsTable(area, lengthNs, meta) {
  const sums = kindSums(area);
  const few = area.ranks.length <= MOST_COLUMNS;
  const head = ['kind', 'all lanes', 'share of time', 'spans', ...(few ? area.ranks.map((rank) => `r${rank}`)
    : ['least', 'median', 'most', 'by'])];
  const rows = sums.map(({ kind, time, count, perRank }) => {
    const { least, median, most, rank } = spread(perRank, area.ranks);
    return [labelOf(kind, meta), formatNs(time),
      `${(100 * time / Math.max(lengthNs * area.ranks.length, 1)).toFixed(1)} %`, count,
      ...(few ? perRank.map(formatNs) : [formatNs(least), formatNs(median), formatNs(most), `r${rank}`])];
  });
  const parts = [table('time by kind and rank', head, rows)];
  if (sums.reduce((total, sum) => total + sum.time, 0) > lengthNs * area.ranks.length) {
    parts.push(make('p', { class: 'quiet' }, 'Kinds overlap, and communication includes the waiting in it: the shares add up to more than 100 %.'));
  }
  if (area.waited_for.length) {
    const named = area.waited_for.slice(0, 4)
      .map(({ rank, time_ns: time }) => `rank ${rank} (${formatNs(time)})`).join(', ');
    parts.push(make('p', { class: 'quiet' }, `Waited for: ${named}.`));
  }
  return make('div', { class: 'scroll' }, ...parts);
}

/** Load the sums by kind of a window, of at most 64 lanes. */
export function loadSums(timeline, ranks, window, signal) {
  const { app } = timeline;
  const step = timeline.tile?.meta.relative_step ?? null;
  return app.json(app.api('timeline/area', {
    attempt: timeline.attempt, ranks: ranks.slice(0, 64).join(','), from: Math.floor(window.begin),
    to: Math.ceil(window.end), steps: step,
  }), signal);
}
