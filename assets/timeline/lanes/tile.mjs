/**
 * One answer of the timeline's route: rectangles in rows of lanes, and the spans and waits they stand for.
 * Pure. Rectangles are sorted by (lane, row, level, start) for binary search.
 */

export const COMPUTE = 0;
export const COMM = 1;
export const HOST = 2;
export const IDLE = 3;
export const WAIT = 4;
export const NO_REF = 0xFFFFFFFF;
const LINES = 64;

export class Tile {
  /** @param {{arrays: Object<string, ArrayLike<number>>, meta: Object}} answer */
  constructor({ arrays, meta }) {
    this.arrays = arrays;
    this.meta = meta;
    this.from = meta.from;
    this.to = meta.to;
    this.laneOfRank = new Map(meta.lanes.map((lane, number) => [lane.rank, number]));
    this.ranges = new Map();
    this.levels = [1, 1, 1, 1, 1];
    const { lane, row, level } = arrays;
    for (let i = 0, line = -1; i < lane.length; i++) {
      const next = lane[i] * LINES + row[i] * 8 + level[i];
      if (next !== line) {
        this.ranges.get(line)?.splice(1, 1, i);
        this.ranges.set(next, [i, lane.length]);
        line = next;
        this.levels[row[i]] = Math.max(this.levels[row[i]], level[i] + 1);
      }
    }
  }

  /** Range of rectangles of a lane's row and level: [first, after the last]. */
  range(lane, row, level = 0) {
    return this.ranges.get(lane * LINES + row * 8 + level) ?? [0, 0];
  }

  /** Begin and end of a rectangle, ns since the run's t0. */
  times(i) {
    const begin = this.from + this.arrays.start[i];
    return [begin, begin + this.arrays.dur[i]];
  }

  /**
   * Rectangle of a lane's row and level at time `t`, or up to `slack` ns away; -1 for none.
   * The innermost if several overlap.
   */
  at(lane, row, level, t, slack = 0) {
    const [first, last] = this.range(lane, row, level);
    const { start, dur } = this.arrays;
    const relative = t - this.from;
    let low = first;
    let high = last;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (start[middle] <= relative + slack) low = middle + 1;
      else high = middle;
    }
    let best = -1;
    let nearest = slack;
    for (let i = low - 1; i >= first && i >= low - 16; i--) {
      const end = start[i] + dur[i];
      const distance = relative < start[i] ? start[i] - relative : relative > end ? relative - end : 0;
      if (distance === 0) return i;
      if (distance <= nearest) [best, nearest] = [i, distance];
    }
    return best;
  }

  /** The next (1) or previous (-1) rectangle of the same lane, row and level; -1 for none. */
  neighbour(i, by) {
    const { lane, row, level } = this.arrays;
    const [first, last] = this.range(lane[i], row[i], level[i]);
    const next = i + by;
    return next >= first && next < last ? next : -1;
  }

  /** Describes a rectangle as an object with times since the run's t0. */
  describe(i) {
    const { arrays, meta } = this;
    const [begin, end] = this.times(i);
    const slice = {
      rank: meta.lanes[arrays.lane[i]].rank, row: arrays.row[i], kind: meta.kinds[arrays.kind[i]],
      begin, end, count: arrays.count[i], busy: arrays.busy[i], span: null, wait: null,
    };
    const ref = arrays.ref[i];
    if (ref === NO_REF) return slice;
    if (arrays.row[i] <= HOST) slice.span = this.span(ref);
    else slice.wait = this.wait(ref);
    return slice;
  }

  /** A span's columns. */
  span(s) {
    const { arrays, meta } = this;
    const group = arrays.span_group[s];
    return {
      rank: meta.lanes[arrays.span_lane[s]].rank,
      begin: this.from + arrays.span_start[s], dur: arrays.span_dur[s], cpu: arrays.span_cpu[s],
      kind: meta.kinds[arrays.span_kind[s]], name: meta.names[arrays.span_name[s]],
      step: arrays.span_step[s], microbatch: arrays.span_microbatch[s], chunk: arrays.span_chunk[s],
      recompute: arrays.span_recompute[s] === 1, group: group < 0 ? null : meta.groups[group],
      seq: arrays.span_seq[s], peer: arrays.span_peer[s], bytes: arrays.span_bytes[s],
      open: arrays.span_open?.[s] === 1,
    };
  }

  /** The collective in which a lane waited. */
  wait(w) {
    const { arrays, meta } = this;
    return {
      rank: arrays.wait_rank[w], begin: this.from + arrays.wait_start[w],
      end: this.from + arrays.wait_end[w], latest: this.from + arrays.wait_latest[w],
      group: meta.wait_groups[arrays.wait_group[w]], seq: arrays.wait_seq[w],
      src: arrays.wait_src[w], dst: arrays.wait_dst[w],
    };
  }

  /** Kinds of the rectangles, in the order of `meta.kinds`. */
  kindsShown() {
    const seen = new Set(this.arrays.kind);
    return this.meta.kinds.filter((_, number) => seen.has(number));
  }
}
