/** When and where a wait counts against a culprit: red is drawn for nothing else. Pure. */

/** @typedef {import('../../lib/culprits.mjs').Roles} Roles */

const timesByTile = new WeakMap();

/**
 * Begin and end of the steps of a lane in which the finding holds, ns since the run's t0; null if the
 * tile has none of them. A lane without steps has nothing before the finding: all of its time counts.
 * @param {import('./tile.mjs').Tile} tile @param {number} number of the lane in the tile @param {Roles} roles
 */
export function faultTime(tile, number, roles) {
  let known = timesByTile.get(tile);
  if (known?.roles !== roles) timesByTile.set(tile, known = { roles, lanes: timesOf(tile, roles) });
  return known.lanes.has(number) ? known.lanes.get(number) : [-Infinity, Infinity];
}

function timesOf({ arrays, from }, { steps }) {
  const times = new Map();
  const { step, step_lane: lanes, step_begin: begins, step_end: ends } = arrays;
  for (let i = 0; i < (lanes?.length ?? 0); i++) {
    const before = times.get(lanes[i]) ?? null;
    const holds = steps && step[i] >= steps[0] && step[i] <= steps[1];
    times.set(lanes[i], !holds ? before : [
      Math.min(before?.[0] ?? Infinity, from + begins[i]), Math.max(before?.[1] ?? -Infinity, from + ends[i])]);
  }
  return times;
}

/** Whether something may be red in a window of time: a finding with a culprit holds in it. */
export function hasRed(tile, roles, window) {
  return roles.culprits.length > 0 && tile.meta.lanes.some((_, number) => {
    const time = faultTime(tile, number, roles);
    return time !== null && time[0] < window.end && time[1] > window.begin;
  });
}

/** Whether the culprit of a lane is judged in a window of time. */
export function isJudged(tile, number, rank, roles, window) {
  if (!roles.culprits.includes(rank)) return false;
  const time = number === undefined ? null : faultTime(tile, number, roles);
  return time !== null && time[0] < window.end && time[1] > window.begin;
}

/**
 * Whether a wait of a lane counts against a culprit: while the finding holds, in the same stage or in a
 * lane that the finding lists as waiting. Across stages the schedule makes others wait, too.
 * @param {{rank: number, t: number, isUpstream: boolean}} wait
 */
export function isFaultWait(tile, number, { rank, t, isUpstream }, roles) {
  if (!roles.culprits.includes(rank)) return false;
  if (isUpstream && !roles.victims.includes(tile.meta.lanes[number].rank)) return false;
  const time = faultTime(tile, number, roles);
  return time !== null && t >= time[0] && t < time[1];
}
