import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  bars, cellRanks, headline, notesOf, percent, ranksText, ratio, seconds, signedPercent, replayedSteps,
  tiles, whyShown,
} from '../../../assets/whatif/messages.mjs';
import { kindOf, layoutOf, pieceAt, pieces, placeAt, rowBox, rowOf, sums, WAITING } from '../../../assets/whatif/replay_lanes.mjs';
import { blockAt, blockText, boxOf, cellMap, codeOfSlowdown, geometryOf, moved } from '../../../assets/whatif/worker_cells.mjs';

const RESULT = {
  S: 1.973, T_s: 46.336, T_ideal_s: 23.485, T_base_s: 46.649, fidelity: 0.0067, straggling: 1.03,
  most_infidelity: 0.05, M_W: 1.0017, M_W_ranks: [0], M_S: null, steps: [0, 1, 2], notes: ['Something is assumed.'],
};

test('numbers as text', () => {
  assert.deepEqual([312.4, 46.336, 2.1727, 0.9996, 0.9994, 0.0123, 0.00002].map(seconds), ['312 s', '46.3 s', '2.17 s', '1.00 s', '999 ms', '12.3 ms', '20 µs']);
  assert.deepEqual([1.9730, 12.44, -0.5].map(ratio), ['1.973', '12.4', '-0.500']);
  assert.equal(percent(0.4932), '49.3 %');
  assert.deepEqual([0.0067, -0.1].map(signedPercent), ['+0.67 %', '-10.00 %']);
  assert.equal(ranksText([3]), 'rank 3');
  assert.deepEqual([[3], [4, 5, 6], [0, 8], [0, 8, 16]].map(cellRanks), ['3', '4\u20136', '0, 8', '0, 8, ..']);
  assert.equal(ranksText(Array.from({ length: 11 }, (_, i) => i)), 'ranks 0, 1, 2, 3, 4, 5, 6, 7 and 3 more');
  assert.deepEqual([[4, 5, 9], [7]].map(replayedSteps), ['on average over 3 steps, 4 to 9', 'in step 7']);
  assert.deepEqual([[4, 5, 9], [7]].map(whyShown), ['those replayed', 'the one replayed']);
});

test('the headline says that its numbers come from the replay of all ranks together', () => {
  assert.equal(headline(RESULT), 'All unevenness of the ranks together, by replay: 49.3 % of the replayed time. A step takes 46.3 s, and 23.5 s without it.');
  assert.match(headline({ ...RESULT, S: 1.02 }), /by replay: next to nothing\. A step takes 46\.3 s/);
});

test('tiles warn if the replay is far off, and leave out missing numbers', () => {
  const labels = (result) => tiles(result).map(({ label }) => label);
  assert.deepEqual(labels(RESULT), ['Slowdown', 'Step time, replayed', 'Step time without stragglers', 'Fidelity', 'Worst ranks']);
  assert.deepEqual(labels({ ...RESULT, M_W: null, M_S: 0.2 }).slice(4), ['Last stage']);
  assert.deepEqual(labels({ ...RESULT, S: 1.02, M_W: -4.495, M_S: 1.772 }).slice(4), [], 'shares of no loss');
  const ends = [[0], [0, 4]].map((ranks) => tiles({ ...RESULT, M_W_ranks: ranks })[4].afterRanks);
  assert.deepEqual(ends, ['keeps pace', 'keep pace']);
  const recovered = (share) => tiles({ ...RESULT, M_W: share, M_S: share }).slice(4).map(({ value }) => value);
  assert.deepEqual([-0.09, 0.2].map(recovered), [['none', 'none'], ['20.0 %', '20.0 %']]);
  assert.equal(tiles(RESULT)[3].warns, false);
  const off = { ...RESULT, fidelity: -0.08, notes: ['Measured steps are 8 % shorter.', 'Other.'] };
  assert.equal(tiles(off)[3].warns, true);
  assert.deepEqual(notesOf(off), { warning: ['Measured steps are 8 % shorter.'], plain: ['Other.'] });
});

test('bars go from no slowdown to the greatest', () => {
  const { rows, left } = bars([['a', 1.2], ['b', 1.4, 7], ['c', 0.9], ['d', 1]], 3);
  assert.deepEqual(rows.map(({ name, rank }) => [name, rank]), [['b', 7], ['a', null], ['d', null]]);
  assert.deepEqual(rows.map(({ share }) => Number(share.toFixed(3))), [1, 0.5, 0]);
  assert.equal(left, 1);
  assert.ok(bars([['a', 1.001]], 3).rows[0].share < 0.1, 'noise makes no long bar');
});

const VALUES = [[1, 1.2, 1, 1.9], [0.9, 1, 1, 1.01]];
const RANKS = [[0, 1, 2, 3], [4, 5, 6, 7]];

test('colour begins at 1.03 and is full at 1.5', () => {
  assert.deepEqual([0.5, 1, 1.029].map(codeOfSlowdown), [1, 1, 1]);
  assert.equal(codeOfSlowdown(1.5), codeOfSlowdown(4));
  assert.ok(codeOfSlowdown(1.1) < codeOfSlowdown(1.4));
});

test('every cell has its place on the map, and the pointer finds it', () => {
  const map = cellMap(VALUES, RANKS, 400);
  const geometry = geometryOf(466, 2);
  assert.equal(map.blocks.length, 8);
  for (const block of map.blocks) {
    const box = boxOf(map, geometry, block);
    assert.equal(blockAt(map, geometry, { x: box.x + box.w / 2, y: box.y + box.h / 2 }), block);
  }
  assert.equal(blockAt(map, geometry, { x: 3, y: 20 }), null);
  assert.equal(blockText(map.blocks[3]), 'stage 0, dp rank 3: rank 3, 1.900 x');
  assert.equal(blockText(map.blocks[3], true), 'stage 0, dp rank 3: slowest is rank 3, 1.900 x');
});

test('where cells are too narrow the worst of a block speaks for it', () => {
  const map = cellMap(VALUES, RANKS, 8);
  assert.deepEqual(map.blocks.map(({ rank, value }) => [rank, value]), [[1, 1.2], [3, 1.9], [5, 1], [7, 1.01]]);
  assert.match(blockText(map.blocks[1]), /dp ranks 2 to 3, worst 3: rank 3/);
  const uneven = cellMap([Array(7).fill(1)], [Array(7).fill(0)], 12);
  const geometry = geometryOf(766, 1);
  for (let x = geometry.plot.x; x < geometry.plot.x + geometry.plot.w; x += 1) {
    const block = blockAt(uneven, geometry, { x, y: 10 });
    const box = boxOf(uneven, geometry, block);
    assert.ok(x >= box.x - 1 && x <= box.x + box.w + 1, `x ${x}`);
  }
});

test('arrow keys go over the map and stop at its edges', () => {
  const map = cellMap(VALUES, RANKS, 400);
  assert.equal(moved(map, null, 'ArrowRight'), 0);
  assert.deepEqual(['ArrowRight', 'ArrowDown', 'ArrowLeft', 'ArrowUp'].map((key) => moved(map, 0, key)), [1, 4, 0, 0]);
  assert.equal(moved(map, 7, 'ArrowDown'), 7);
});

/** A forward of 1 s after which a send waits 1 s and transfers 0.5 s; ideally half as long. */
const OPS = {
  arrays: {
    lane: Uint16Array.of(0, 0), type: Uint8Array.of(0, 1), seq: Int32Array.of(0, 0),
    replayed_start_s: Float32Array.of(0, 1), replayed_end_s: Float32Array.of(1, 2.5), own_s: Float32Array.of(1, 0.5),
    ideal_start_s: Float32Array.of(0, 0.5), ideal_end_s: Float32Array.of(0.5, 0.75), ideal_own_s: Float32Array.of(0.5, 0.25),
  },
  meta: { optypes: ['forward-compute', 'forward-send'], lanes: [{ stage: 0, dp: 0, rank: 0, ranks: [0] }], T_s: 2.5, T_ideal_s: 0.75 },
};

test('an operation is its waiting and its own time', () => {
  const real = pieces(OPS, 'real', { begin: 0, end: 3 }, 300);
  assert.deepEqual(real.map(({ kind, row, begin, end }) => [kind, row, begin, end]), [
    ['forward', 0, 0, 1], [WAITING, 1, 1, 2], ['pp_comm', 1, 2, 2.5],
  ]);
  assert.deepEqual(pieces(OPS, 'ideal', { begin: 0, end: 3 }, 300).map(({ kind }) => kind), ['forward', 'pp_comm']);
  assert.deepEqual(pieces(OPS, 'real', { begin: 2.1, end: 3 }, 300).map(({ kind }) => kind), ['pp_comm']);
  assert.equal(pieceAt(real, 0, 1, 1.5, 0).kind, WAITING);
  assert.equal(pieceAt(real, 0, 1, 2.2, 0).kind, 'pp_comm');
  assert.equal(pieceAt(real, 0, 0, 2.2, 0), null);
});

test('a step of many operations is drawn with no more rectangles than pixels', () => {
  const number = 50000;
  const starts = Float32Array.from({ length: number }, (_, i) => i / number);
  const own = new Float32Array(number).fill(1 / number);
  const ends = starts.map((start, i) => start + own[i]);
  const many = {
    arrays: { lane: new Uint16Array(number), type: new Uint8Array(number), replayed_start_s: starts, replayed_end_s: ends, own_s: own },
    meta: { optypes: ['forward-compute'] },
  };
  assert.ok(pieces(many, 'real', { begin: 0, end: 1 }, 500).length <= 501);
  const near = pieces(many, 'real', { begin: 0.5, end: 0.501 }, 500);
  assert.ok(near.length >= 50 && near.length <= 54, `all ${near.length} are seen from near by`);
});

test('kinds, rows and sums', () => {
  assert.deepEqual(
    ['backward-compute', 'backward-recv', 'params-all-gather', 'optimizer-clip-main-grad', 'gc', 'optimizer'].map(kindOf),
    ['backward', 'pp_comm', 'dp_comm', 'other_comm', 'gc', 'optimizer']);
  assert.deepEqual(['optimizer', 'forward-send'].map(rowOf), [0, 1]);
  const [row] = sums(OPS);
  assert.deepEqual(row.real, { forward: 1, backward: 0, comm: 0.5, other: 0, end: 2.5 });
  assert.deepEqual(row.ideal, { forward: 0.5, backward: 0, comm: 0.25, other: 0, end: 0.75 });
});

test('a height on the canvas is a lane of one of the two worlds', () => {
  const layout = layoutOf(3, 800);
  for (const world of ['real', 'ideal']) {
    for (const row of [0, 1]) {
      const box = rowBox(layout, world, 2, row);
      assert.deepEqual(placeAt(layout, box.y + box.h / 2), { world, lane: 2, row });
    }
  }
  assert.equal(placeAt(layout, 3), null);
  assert.ok(rowBox(layout, 'ideal', 2, 1).y + rowBox(layout, 'ideal', 2, 1).h <= layout.height);
  assert.ok(layoutOf(3, 390).left < layout.left);
});
