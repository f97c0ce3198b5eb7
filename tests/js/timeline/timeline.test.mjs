import assert from 'node:assert/strict';
import { labelOf } from '../../../assets/lib/canvas/kind_colours.mjs';
import { test } from 'node:test';

import { nextMember } from '../../../assets/timeline/flows.mjs';
import { medianRank } from '../../../assets/timeline/ghost.mjs';
import { labelEvery, originOf } from '../../../assets/timeline/lanes/draw_axes.mjs';
import {
  laneAt, lanesInSight, laneSizes, laneTop, MOST_LANE, mostScroll, rowAt, rowBox, timeOf, xOf,
} from '../../../assets/timeline/lanes/geometry.mjs';
import { COMM, COMPUTE, HOST, NO_REF, Tile } from '../../../assets/timeline/lanes/tile.mjs';
import { areaOf, fieldsOf } from '../../../assets/timeline/linked_selection.mjs';
import { lanesText, sentenceOf } from '../../../assets/timeline/panels/lanes_table.mjs';
import { instanceOf, verdict } from '../../../assets/timeline/panels/members.mjs';
import { emptySentence } from '../../../assets/timeline/panels/states.mjs';
import { kindSums, spread } from '../../../assets/timeline/panels/sums.mjs';
import { clockSentence, detailNote, otherStepsText, ranksOf } from '../../../assets/timeline/panels/toolbar.mjs';
import { sliceText } from '../../../assets/timeline/panels/tooltip.mjs';
import { namesWith, nextAfter } from '../../../assets/timeline/search.mjs';

const KINDS = ['forward', 'tp_comm', 'host', 'waiting', 'bubble'];

/** Rows of {lane, row, level, kind, start, dur, count, ref} in drawing order, spans {name, ...}. */
function tileOf(rects, spans = [], waits = [], meta = {}) {
  const column = (rows, name, missing) => Float64Array.from(rows, (row) => row[name] ?? missing);
  const arrays = {
    ...Object.fromEntries(['lane', 'row', 'level', 'kind', 'start', 'dur', 'busy']
      .map((name) => [name, column(rects, name, 0)])),
    count: column(rects, 'count', 1), ref: column(rects, 'ref', NO_REF),
    ...Object.fromEntries(['start', 'dur', 'lane', 'kind', 'name', 'recompute', 'step', 'group']
      .map((name) => [`span_${name}`, column(spans, name, 0)])),
    ...Object.fromEntries(['cpu', 'microbatch', 'chunk', 'seq', 'peer', 'bytes']
      .map((name) => [`span_${name}`, column(spans, name, -1)])),
    ...Object.fromEntries(['rank', 'start', 'end', 'latest', 'group', 'seq', 'src', 'dst']
      .map((name) => [`wait_${name}`, column(waits, name, 0)])),
    step: Int32Array.of(4, 5),
  };
  return new Tile({ arrays, meta: {
    from: 1000, to: 2000, kinds: KINDS, names: ['F', 'all_reduce', 'send'], groups: ['77'],
    wait_groups: ['77'], lanes: [{ rank: 8 }, { rank: 5 }], t0_ns: '0', clock: 'absolute',
    num_spans: spans.length, ...meta,
  } });
}

const geometry = {
  width: 1116, height: 236, left: 116, top: 36, laneHeight: 50, scroll: 0, ranks: [8, 5, 2, 7, 1],
  window: { begin: 1000, end: 2000 },
};

test('lanes share the room there is, within limits', () => {
  assert.deepEqual(laneSizes(4, 242, 36), { laneHeight: 50, height: 242 });
  assert.equal(laneSizes(1, 900, 36).laneHeight, MOST_LANE);
  const many = laneSizes(500, 600, 36);
  assert.equal(many.laneHeight, 24);
  assert.equal(many.height, 600);
});

test('places on the canvas and back', () => {
  assert.equal(laneTop(geometry, 2), 136);
  assert.equal(laneAt(geometry, 20), -1);
  assert.equal(laneAt(geometry, 36), 0);
  assert.equal(laneAt(geometry, 137), 2);
  assert.equal(laneAt({ ...geometry, scroll: 60 }, 36), 1);
  assert.equal(laneAt({ ...geometry, ranks: [1] }, 200), -1);
  assert.equal(timeOf(geometry, xOf(geometry, 1234)), 1234);
  assert.deepEqual(lanesInSight(geometry), [0, 3]);
  assert.equal(mostScroll(geometry), 5 * 50 - 200 + 4);
});

test('rows of a lane do not overlap', () => {
  for (const laneHeight of [24, 31, 50, 96]) {
    const [compute, comm, host] = [COMPUTE, COMM, HOST].map((row) => rowBox(laneHeight, row));
    assert.ok(compute.y + compute.height <= comm.y);
    assert.ok(comm.y + comm.height <= host.y);
    assert.ok(host.y + host.height <= laneHeight);
    const sized = { ...geometry, laneHeight };
    const top = laneTop(sized, 1);
    assert.equal(rowAt(sized, 1, top + 1).row, COMPUTE);
    assert.equal(rowAt(sized, 1, top + comm.y + comm.height / 2).row, COMM);
    assert.equal(rowAt(sized, 1, top + host.y + 1).row, HOST);
  }
});

test('ranks that recorded collectives only give them the whole lane', () => {
  const sized = { ...geometry, laneHeight: 50, onlyComm: true };
  assert.deepEqual(rowBox(50, COMM, true), { y: 0, height: 45 });
  assert.deepEqual(rowBox(50, COMPUTE, true), rowBox(50, COMM, true), 'what is not visible lies behind');
  assert.equal(rowAt(sized, 1, laneTop(sized, 1) + 1).row, COMM);
  assert.equal(rowAt(sized, 1, laneTop(sized, 1) + 40).share, 40 / 45);
});

test('the rectangle at a time is found, or the nearest within a slack', () => {
  const rects = Array.from({ length: 200 }, (_, i) => ({ lane: 1, start: i * 5, dur: 3 }));
  const tile = tileOf([{ lane: 0, start: 0, dur: 900 }, ...rects, { lane: 1, row: COMM, start: 7, dur: 1 }]);
  assert.deepEqual(tile.range(0, COMPUTE), [0, 1]);
  assert.deepEqual(tile.range(1, COMPUTE), [1, 201]);
  assert.deepEqual(tile.range(1, COMM), [201, 202]);
  assert.deepEqual(tile.range(0, HOST), [0, 0]);
  assert.equal(tile.at(0, COMPUTE, 0, 1500), 0);
  assert.equal(tile.at(1, COMPUTE, 0, 1000 + 52), 11);
  assert.equal(tile.at(1, COMPUTE, 0, 1000 + 54), -1);
  assert.equal(tile.at(1, COMPUTE, 0, 1000 + 54.4, 2), 12, 'the nearer of two');
  assert.equal(tile.at(1, COMM, 0, 1004, 2), -1);
  assert.equal(tile.at(1, COMM, 0, 1005, 2), 201);
});

test('the innermost of overlapping rectangles is meant', () => {
  const tile = tileOf([{ start: 0, dur: 100 }, { start: 10, dur: 20 }]);
  assert.equal(tile.at(0, COMPUTE, 0, 1015), 1);
  assert.equal(tile.at(0, COMPUTE, 0, 1050), 0);
});

test('neighbours end with their line; levels are counted per row', () => {
  const tile = tileOf([{ start: 0, dur: 1 }, { start: 2, dur: 1 }, { level: 1, start: 0, dur: 1 }, { lane: 1, start: 5, dur: 1 }]);
  assert.equal(tile.neighbour(0, 1), 1);
  assert.equal(tile.neighbour(1, 1), -1);
  assert.equal(tile.neighbour(0, -1), -1);
  assert.deepEqual(tile.levels.slice(0, 3), [2, 1, 1]);
});

test('text of a slice: span, merged spans, waiting', () => {
  const tile = tileOf(
    [{ row: COMM, kind: 1, start: 10, dur: 20, ref: 0 }, { kind: 0, start: 0, dur: 9, count: 7, busy: 5, ref: 0 },
      { row: 3, kind: 3, start: 1, dur: 2, ref: 0 }],
    [{ name: 1, start: 10, dur: 20, kind: 1, seq: 3, bytes: 2048, step: 4, microbatch: 2 }], [{ rank: 5 }]);
  const [span, merged, waiting] = [0, 1, 2].map((i) => sliceText(tile.describe(i), tile.meta));
  assert.equal(span.title, 'all_reduce');
  const rows = Object.fromEntries(span.rows);
  assert.deepEqual([rows.duration, rows['micro-batch'], rows.bytes, rows.step], ['20 ns', '2', '2.0 kB', '4']);
  assert.ok(!('CPU time' in rows) && !('peer' in rows), 'unknown values are left out');
  assert.match(merged.title, /^7 spans, mostly forward$/);
  assert.equal(waiting.title, 'waiting for rank 5');
});

test('which instance a slice belongs to', () => {
  const tile = tileOf(
    [{ row: COMM, kind: 1, dur: 1, ref: 0 }, { row: COMM, kind: 1, start: 2, dur: 1, ref: 1 },
      { row: COMM, start: 4, dur: 1, count: 3, ref: 0 }, { row: 3, kind: 3, dur: 1, ref: 0 }],
    [{ name: 1, seq: 3 }, { name: 2, seq: 9, peer: 5 }], [{ rank: 5, seq: 2, src: 5, dst: 8 }]);
  const of = (i) => instanceOf(tile.describe(i));
  assert.deepEqual(of(0), { group: '77', seq: 3, src: -1, dst: -1 });
  assert.deepEqual(of(1), { group: '77', seq: 9, src: 8, dst: 5 });
  assert.equal(of(2), null, 'merged spans are of many');
  assert.deepEqual(of(3), { group: '77', seq: 2, src: 5, dst: 8 });
  assert.equal(instanceOf(null), null);
});

const member = (rank, start, more = {}) => ({
  rank, aligned_start_ns: start, wait_us: 10, transfer_us: 2, is_last: false, reason: null, ...more,
});

test('following goes to the last arriver first, then around', () => {
  const members = [member(1, 10), member(2, 30), member(3, 20)];
  assert.equal(nextMember(members, 1).rank, 2);
  assert.equal(nextMember(members, 2).rank, 3);
  assert.equal(nextMember(members, 3).rank, 1);
  assert.equal(nextMember([member(1, 0)], 1), null);
  assert.equal(nextMember([], 1), null);
});

test('the verdict names the last, or says why it cannot', () => {
  assert.match(verdict([member(1, 0), member(2, 5, { is_last: true, wait_us: 0 })]), /^Rank 2 arrived last: the others waited up to 10\.0 µs/);
  assert.match(verdict([member(1, 0, { reason: 'members are missing: 1 of 2' })]), /unknown: members are missing/);
  assert.equal(verdict([member(1, 0), member(2, 0)]), 'All members arrived at the same time.');
  assert.match(verdict([]), /No member/);
});

test('sums: kinds with time, most first, idle behind; spread names the rank', () => {
  const area = {
    ranks: [8, 5], kinds: KINDS, waited_for: [],
    time_ns: [[5, 9, 0, 50, 0], [6, 1, 0, 0, 0]], count: [[1, 2, 0, 3, 0], [1, 1, 0, 0, 0]],
  };
  assert.deepEqual(kindSums(area).map(({ kind, time, count }) => [kind, time, count]),
    [['forward', 11, 2], ['tp_comm', 10, 3], ['waiting', 50, 3]]);
  assert.deepEqual(spread([3, 9, 4], [8, 5, 2]), { least: 3, median: 4, most: 9, rank: 5 });
});

test('ranks as typed', () => {
  assert.deepEqual(ranksOf(' 0-2, 7'), [0, 1, 2, 7]);
  assert.deepEqual(ranksOf('5,5'), [5]);
  assert.equal(ranksOf('0-12287').length, 12_288);
  for (const text of ['', 'a', '3-1', '1.5', '0-99999']) assert.equal(ranksOf(text), null, text);
});

test('names found, and the next hit', () => {
  assert.deepEqual([...namesWith(['blocks.0', 'Blocks.1', 'F'], ' BLOCKS')], [0, 1]);
  assert.equal(namesWith(['F'], ' '), null);
  assert.equal(nextAfter([{ begin: 1 }, { begin: 5 }], 2), 1);
  assert.equal(nextAfter([{ begin: 1 }], 2), 0);
});

test('sentences about clocks, emptiness and the picture', () => {
  const lane = (aligned, error) => ({ aligned, err_ns: error });
  assert.equal(clockSentence({ clock: 'absolute', lanes: [lane(true, 200), lane(true, 1500)] }), 'clocks within 1.50 µs');
  assert.match(clockSentence({ clock: 'absolute', lanes: [lane(true, 1), lane(false, null)] }), /^1 of 2 clocks not aligned/);
  assert.equal(clockSentence({ clock: 'absolute', lanes: [lane(true, null)] }), 'clocks aligned, error unknown');
  assert.equal(clockSentence({ clock: 'absolute', lanes: [lane(true, 0)] }), 'one clock');
  assert.match(clockSentence({ clock: 'per_step_relative', relative_step: 7, lanes: [] }), /step 7/);
  assert.equal(emptySentence([12], { begin: 0, end: 2e9 }),
    'Rank 12 has no spans in this window; there is data from 0 ns to 2.00 s after the run\'s start.');
  assert.match(sentenceOf(tileOf([]), geometry), /^Timeline of ranks 8, 5, 2, 7, 1, steps 4 to 5: 0 spans/);
  const oneStep = { ...tileOf([]), arrays: { ...tileOf([]).arrays, step: [6] } };
  assert.match(sentenceOf(oneStep, geometry), /, step 6: 0 spans/);
});

test('the axis counts from the first step that begins in sight', () => {
  const steps = [{ begin: 0, end: 100 }, { begin: 100, end: 200 }];
  assert.equal(originOf(steps, { begin: 50, end: 250 }), 100);
  assert.equal(originOf(steps, { begin: 20, end: 60 }), 0);
  assert.equal(originOf([], { begin: 20, end: 60 }), 20);
  assert.equal(originOf([], { begin: 20, end: 60 }, 5), 5, 'without steps: the begin of the record');
});

test('a table of some of many lanes says which', () => {
  assert.equal(lanesText([0, 1, 2], 3), '3 lanes');
  assert.equal(lanesText([5], 1), '1 lane');
  assert.equal(lanesText([100, 101, 102], 12_288), '3 of 12,288 lanes, r100 to r102');
});

test('labels of steps keep apart', () => {
  const stepsOf = (px) => Array.from({ length: 11 }, (_, i) => ({ step: i, begin: 1000 + i * px, end: 1000 + (i + 1) * px }));
  assert.equal(labelEvery(stepsOf(90), geometry), 1);
  assert.equal(labelEvery(stepsOf(40), geometry), 2);
  assert.equal(labelEvery(stepsOf(3), geometry), 50);
  assert.equal(labelEvery([], geometry), 1);
});

test('the note names what the level of detail leaves out', () => {
  assert.equal(detailNote({ detail: 'nested', merged: 0, num_spans: 5 }), '');
  assert.match(detailNote({ detail: 'innermost', merged: 1200, num_spans: 50000 }), /^50,000 spans; 1,200 boxes merge several of them/);
  assert.match(detailNote({ detail: 'nested', merged: 0, num_spans: 5, summed_steps: 1 }), /^the spans of 1 step here were not recorded one by one/);
  assert.match(detailNote({ detail: 'steps', merged: 9, num_spans: 7, pool: 4 }), /4 steps together/);
});

test('the ghost is the peer with the median compute, not the median of everything', () => {
  const area = { ranks: [1, 3, 5], kinds: KINDS, time_ns: [[9, 0, 0, 0, 0], [5, 90, 0, 0, 0], [7, 1, 0, 0, 0]] };
  assert.equal(medianRank(area), 5);
  assert.equal(medianRank({ ...area, ranks: [1, 3], time_ns: area.time_ns.slice(0, 2) }), 3);
  assert.equal(medianRank({ ...area, ranks: [], time_ns: [] }), null);
});

test('what is selected goes into the link and comes back', () => {
  const ranks = [7, 4, 5, 6];
  const selected = { rank: 5, row: 0, tileRow: 3, begin: 100.4, end: 250.2 };
  const fields = fieldsOf({ selected, area: { begin: 1.6, end: 9, lanes: [1, 3] }, marks: [5.5, 8], pinned: new Set([7]) }, ranks);
  assert.deepEqual(fields, { span: [5, 3, 100, 250], area: [2, 9, 4, 6], marks: [6, 8], pins: [7] });
  assert.deepEqual(areaOf(fields.area, ranks), { begin: 2, end: 9, lanes: [1, 3] });
  assert.equal(areaOf(fields.area, [4, 5]), null, 'one of its lanes is gone');
  const span = { begin: 90, dur: 300 };
  assert.deepEqual(fieldsOf({ selected: { ...selected, tileRow: 1, span, count: 1 }, area: null, marks: [], pinned: new Set() }, ranks),
    { span: [5, 1, 90, 390], area: null, marks: [], pins: [] });
  assert.equal(fieldsOf({ selected: null, area: null, marks: [], pinned: new Set() }, ranks).span, null);
});

test('without a pipeline no schedule makes ranks wait', () => {
  assert.equal(labelOf('bubble', { has_pipeline: true }), 'schedule bubble');
  assert.equal(labelOf('bubble', {}), 'schedule bubble');
  assert.equal(labelOf('bubble', { has_pipeline: false }), 'waiting, no late rank');
  assert.equal(labelOf('waiting', { has_pipeline: false }), 'waiting for a rank');
  assert.equal(labelOf('forward', { has_pipeline: false }), 'forward');
});

test('a timeline of other steps than the rest of the page says so', () => {
  const page = { steps: [40, 59] };
  assert.equal(otherStepsText({ steps: [30, 31] }, page), 'the finding is seen best here; the other panels show steps 40 to 59');
  assert.equal(otherStepsText({ steps: [40, 41] }, page), '');
  assert.equal(otherStepsText(null, page) + otherStepsText({ steps: [30, 31] }, null), '');
});
