/**
 * Where each rank stands in the 3D grid. Pure.
 * x: dp, to the right. y: pp, upwards, with layers far enough apart that the first view hides no rank;
 * if that makes the cubes small, stages stand side by side. z: tp (and cp), towards the viewer. Without
 * a known layout the grid is flat, ordered by host and rank.
 *
 * @typedef {Object} Placed
 * @property {Float32Array} positions x, y, z of each rank's cube, centred on 0
 * @property {[number, number, number]} size of the whole box
 * @property {boolean} flat the layout is unknown: seen from above
 * @property {{name: string, size: number, ticks: {index: number, at: number[]}[]}[]} axes
 * @property {boolean} sideBySide stages stand next to each other, not on top of each other
 * @property {number} yaw initial yaw of the camera, radians
 * @property {number} wrap replicas per row of x (dp is folded where it would be too long)
 */

export const UNKNOWN = 65535;
export const FIRST_PITCH = 0.62;
const FIRST_YAW = -0.3;
const MOST_SHEAR = 0.16;  // share of its height by which a wide box may lean in the first view
const TYPICAL_SIZE = [560, 320];
const LARGE_PIXELS = 45;
const GAP = 1.35;
const LONGEST = 4.5;

/**
 * @param {{rank: ArrayLike<number>, host: ArrayLike<number>, pp, dp, cp, tp}} places arrays of ranks/layout
 * @param {{axes: Object<string, number>, reason: ?string}} meta
 * @returns {Placed}
 */
export function place(places, meta) {
  return meta.reason ? byHost(places) : byAxes(places, meta.axes);
}

/** Initial yaw of the camera: less for a wide box, which would otherwise lean out of the picture. */
function firstYaw([width, height, depth]) {
  const seen = height * Math.cos(FIRST_PITCH) + depth * Math.sin(FIRST_PITCH);
  return Math.max(FIRST_YAW, -Math.asin(Math.min(1, MOST_SHEAR * seen / (width * Math.sin(FIRST_PITCH)))));
}

/** Pixels of a cube in a picture of typical size. */
function cubePixels([width, height, depth]) {
  const [s, c] = [Math.sin(-FIRST_YAW), Math.cos(FIRST_YAW)];
  const across = width * c + depth * s;
  const up = height * Math.cos(FIRST_PITCH) + (width * s + depth * c) * Math.sin(FIRST_PITCH);
  return Math.min(TYPICAL_SIZE[0] / across, TYPICAL_SIZE[1] / up);
}

const known = (index) => (index === UNKNOWN ? 0 : index);

/** Number of replicas per row, so that the box is not much longer than wide. */
export function rowLength(dp, pp, depth) {
  const across = pp * (depth + 1);
  if (dp <= LONGEST * Math.max(across, 8)) return dp;
  const rows = Math.ceil(Math.sqrt(dp / (1.6 * across)));
  return Math.ceil(dp / rows);
}

function byAxes(places, axes) {
  const { pp = 1, dp = 1, cp = 1, tp = 1 } = axes;
  const depth = tp * cp + (cp > 1 ? cp - 1 : 0);
  const wrap = rowLength(dp, pp, depth);
  const folds = Math.ceil(dp / wrap);
  const deep = folds * (depth + 1) - 1;
  const layer = Math.max(GAP, GAP * (deep + 1) * Math.tan(FIRST_PITCH) / Math.cos(FIRST_YAW) + 0.55);
  const block = (wrap + 1) * GAP;
  const [wide, long] = [(wrap - 1) * GAP + 1, (deep - 1) * GAP + 1];
  const stacked = [wide, (pp - 1) * layer + 1, long];
  const inRow = [(pp - 1) * block + wide, 1, long];
  // stages on top of each other, as pipelines are usually drawn; side by side if cubes would be small
  const sideBySide = pp > 1 && cubePixels(stacked) < LARGE_PIXELS && cubePixels(inRow) > 1.3 * cubePixels(stacked);
  const size = sideBySide ? inRow : stacked;
  const positionOf = (p, d, c, t) => [
    (d % wrap - (wrap - 1) / 2) * GAP + (sideBySide ? (p - (pp - 1) / 2) * block : 0),
    sideBySide ? 0 : ((pp - 1) / 2 - p) * layer,
    (Math.floor(d / wrap) * (depth + 1) + c * (tp + 1) + t - (deep - 1) / 2) * GAP,
  ];
  const positions = new Float32Array(3 * places.rank.length);
  for (let i = 0; i < places.rank.length; i++) {
    positions.set(positionOf(known(places.pp[i]), known(places.dp[i]), known(places.cp[i]), known(places.tp[i])), 3 * i);
  }
  const [lowest, end] = [sideBySide ? 0 : pp - 1, Math.min(wrap, dp) - 1];
  const tickAt = {
    pp: (i) => (sideBySide ? [(i - (pp - 1) / 2) * block, 0, -long / 2] : positionOf(i, 0, 0, 0)),
    dp: (i) => positionOf(lowest, i, cp - 1, tp - 1),
    tp: (i) => positionOf(pp - 1, end, 0, i), cp: (i) => positionOf(pp - 1, end, i, (tp - 1) / 2),
  };
  return {
    positions, flat: false, wrap, size, sideBySide, yaw: firstYaw(size),
    axes: Object.entries(axes).map(([name, length]) => ({
      name, size: length,
      ticks: Array.from({ length: name === 'dp' ? Math.min(wrap, length) : length }, (_, index) => ({ index, at: tickAt[name](index) })),
    })),
  };
}

/** Rows of hosts, folded to about the shape of a screen. */
function byHost({ rank, host }) {
  const inHost = new Map();
  const seats = Array.from(rank, (_, i) => {
    const seat = inHost.get(host[i]) ?? 0;
    inHost.set(host[i], seat + 1);
    return seat;
  });
  const seatsPerHost = Math.max(...inHost.values(), 1);
  const hosts = inHost.size;
  const perHost = seatsPerHost > 64 ? Math.ceil(Math.sqrt(seatsPerHost)) : seatsPerHost;
  const lines = Math.ceil(seatsPerHost / perHost);
  const columns = Math.max(1, Math.round(Math.sqrt(hosts * lines * 1.6 / (perHost + 1))));
  const order = new Map([...inHost.keys()].map((name, i) => [name, i]));
  const rows = Math.ceil(hosts / columns);
  const width = columns * (perHost + 1) - 1;
  const height = rows * (lines + (lines > 1 ? 1 : 0));
  const positions = new Float32Array(3 * rank.length);
  for (let i = 0; i < rank.length; i++) {
    const h = order.get(host[i]);
    positions.set([
      ((h % columns) * (perHost + 1) + seats[i] % perHost - (width - 1) / 2) * GAP, 0,
      (Math.floor(h / columns) * (lines + (lines > 1 ? 1 : 0)) + Math.floor(seats[i] / perHost) - (height - 1) / 2) * GAP,
    ], 3 * i);
  }
  return { positions, flat: true, wrap: columns, yaw: 0, sideBySide: false, axes: [], size: [(width - 1) * GAP + 1, 1, (height - 1) * GAP + 1] };
}

/** Index of every rank by its coordinates. */
export function coordinateIndex(places) {
  const index = new Map();
  for (let i = 0; i < places.rank.length; i++) index.set(keyOf(places, i), i);
  return index;
}

function keyOf({ pp, dp, cp, tp }, i, changes = {}) {
  return `${changes.pp ?? pp[i]}/${changes.dp ?? dp[i]}/${changes.cp ?? cp[i]}/${changes.tp ?? tp[i]}`;
}

/** Index of the rank `by` positions further along an axis; the same index if there is none. */
export function neighbour(places, index, i, axis, by) {
  if (places[axis][i] === UNKNOWN) return i;
  return index.get(keyOf(places, i, { [axis]: places[axis][i] + by })) ?? i;
}

export const FLAGS = { tp: 1, pp: 2, dp: 4, victim: 8, culprit: 16, selected: 32, ep: 64 };

const MOST_OUTLINED = 1024;  // ranks

/** The victims to outline: where thousands wait, a cell is a few pixels, and outlines would hide its colour. */
export const outlinedVictims = (victims) => (victims.size > MOST_OUTLINED ? new Set() : victims);

/**
 * One byte per rank: groups of the selected one, culprits and victims. `flags` is written in place.
 * @param {?number} selected index @param {Set<number>} culprits ranks @param {Set<number>} victims
 */
export function markRanks(flags, places, selected, culprits, victims) {
  const { rank, pp, dp, cp, tp, ep_group: epGroup } = places;
  const s = selected ?? -1;
  for (let i = 0; i < rank.length; i++) {
    let flag = 0;
    if (s >= 0 && rank.length > 1 && pp[s] !== UNKNOWN) {
      const [samePp, sameDp, sameTp, sameCp] = [pp[i] === pp[s], dp[i] === dp[s], tp[i] === tp[s], cp[i] === cp[s]];
      if (samePp && sameDp && sameCp) flag |= FLAGS.tp;
      if (sameDp && sameTp && sameCp) flag |= FLAGS.pp;
      if (samePp && sameTp && sameCp) flag |= FLAGS.dp;
      if (epGroup && epGroup[i] === epGroup[s]) flag |= FLAGS.ep;
    }
    if (culprits.has(rank[i])) flag |= FLAGS.culprit;
    else if (victims.has(rank[i])) flag |= FLAGS.victim;
    if (i === s) flag = (flag & (FLAGS.culprit | FLAGS.victim)) | FLAGS.selected;
    flags[i] = flag;
  }
  return flags;
}
