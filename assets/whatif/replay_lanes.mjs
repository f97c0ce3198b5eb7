/**
 * Operations of a replayed step as visible rectangles, and their sums. Pure.
 *
 * @typedef {Object} Ops answer of what-if/replay; times in s since the step's begin
 * @property {Object<string, ArrayLike<number>>} arrays lane, type, seq, chunk, replayed_start_s, ...
 * @property {{step: number, lanes: {stage: number, dp: number, rank: number, ranks: number[]}[], optypes: string[],
 *   T_s: number, T_ideal_s: number, T_base_s: number}} meta
 * @typedef {{lane: number, row: 0|1, begin: number, end: number, kind: string, op: number}} Piece
 */

const COMPUTE = {
  'forward-compute': 'forward', 'backward-compute': 'backward', optimizer: 'optimizer', gc: 'gc',
};
export const WAITING = 'waiting';
export const WORLDS = { real: ['replayed_start_s', 'replayed_end_s', 'own_s'], ideal: ['ideal_start_s', 'ideal_end_s', 'ideal_own_s'] };

/** Kind of span, and so the colour, of an op type. */
export function kindOf(optype) {
  if (COMPUTE[optype]) return COMPUTE[optype];
  if (/^(forward|backward)-(send|recv)$/.test(optype)) return 'pp_comm';
  return /^(params|grads|separate)/.test(optype) ? 'dp_comm' : 'other_comm';
}

/** Row within the lane: compute above, communication below. */
export const rowOf = (optype) => (COMPUTE[optype] ? 0 : 1);

/**
 * Pieces of one world (real, ideal) in a window: an op is its waiting, then its own time. A piece that is
 * narrower than a pixel and on the same pixel as the one before is left out, so that each lane and row
 * has at most as many rectangles as pixels.
 * @param {Ops} ops @param {'real'|'ideal'} world
 * @param {{begin: number, end: number}} window s @param {number} widthPx
 * @returns {Piece[]}
 */
export function pieces({ arrays, meta }, world, window, widthPx) {
  const [starts, ends, own] = WORLDS[world].map((name) => arrays[name]);
  const pxPerS = widthPx / (window.end - window.begin);
  const order = [...starts.keys()].sort((a, b) => ends[a] - own[a] - (ends[b] - own[b]));
  const drawn = [];
  const last = new Map();
  const add = (op, kind, begin, end, lane, row) => {
    if (!(end > begin) || end < window.begin || begin > window.end) return;
    const pixel = Math.floor((end - window.begin) * pxPerS);
    const key = `${lane} ${row} ${kind === WAITING}`;
    if ((end - begin) * pxPerS < 1 && last.get(key) === pixel) return;
    last.set(key, pixel);
    drawn.push({ lane, row, begin, end, kind, op });
  };
  for (const op of order) {
    const optype = meta.optypes[arrays.type[op]];
    const [lane, row] = [arrays.lane[op], rowOf(optype)];
    const begun = Math.max(starts[op], ends[op] - Math.max(0, own[op]));
    if (row === 1) add(op, WAITING, starts[op], begun, lane, row);
    add(op, kindOf(optype), begun, ends[op], lane, row);
  }
  return drawn;
}

/** The piece at a time in a lane and row: own time before waiting, the last drawn before others. */
export function pieceAt(drawn, lane, row, time, slackS) {
  const near = drawn.filter((piece) => piece.lane === lane && piece.row === row
    && time >= piece.begin - slackS && time <= piece.end + slackS);
  return near.findLast((piece) => piece.kind !== WAITING) ?? near.at(-1) ?? null;
}

/**
 * Sums of each lane: seconds of forward, backward, communication and the rest of the step, and when
 * the lane is done, in both worlds.
 * @param {Ops} ops
 */
export function sums({ arrays, meta }) {
  const empty = () => ({ forward: 0, backward: 0, comm: 0, other: 0, end: 0 });
  const rows = meta.lanes.map((lane) => ({ ...lane, real: empty(), ideal: empty() }));
  for (let op = 0; op < arrays.lane.length; op++) {
    const optype = meta.optypes[arrays.type[op]];
    const kind = kindOf(optype);
    const field = rowOf(optype) === 1 ? 'comm' : kind === 'forward' || kind === 'backward' ? kind : 'other';
    for (const [world, [, ends, own]] of Object.entries(WORLDS)) {
      const sum = rows[arrays.lane[op]][world];
      sum[field] += Math.max(0, arrays[own][op]);
      sum.end = Math.max(sum.end, arrays[ends][op]);
    }
  }
  return rows;
}

/** Layout of two blocks of lanes below each other, the axis on top. CSS pixels. */
export function layoutOf(lanes, width) {
  const laneHeight = lanes <= 4 ? 34 : lanes <= 8 ? 26 : lanes <= 16 ? 20 : 14;
  const [axis, title, gap] = [20, 18, 10];
  const tops = { real: axis + title, ideal: axis + 2 * title + lanes * laneHeight + gap };
  return { laneHeight, tops, axis, left: width < 500 ? 64 : 128, lanes, width, height: tops.ideal + lanes * laneHeight + 6 };
}

/** Box of a row within its lane. */
export function rowBox(layout, world, lane, row) {
  const top = layout.tops[world] + lane * layout.laneHeight;
  const compute = Math.round((layout.laneHeight - 4) * 0.66);
  return row === 0 ? { y: top, h: compute } : { y: top + compute + 1, h: layout.laneHeight - 4 - compute };
}

/** World, lane and row at a y position; null between lanes. */
export function placeAt(layout, y) {
  for (const world of ['real', 'ideal']) {
    const position = (y - layout.tops[world]) / layout.laneHeight;
    if (position >= 0 && position < layout.lanes) {
      const lane = Math.floor(position);
      return { world, lane, row: y < rowBox(layout, world, lane, 1).y ? 0 : 1 };
    }
  }
  return null;
}
