import assert from 'node:assert/strict';
import { test } from 'node:test';

import { blockOf, stepTicks, xOfStep } from '../../../assets/lib/canvas/step_axis.mjs';
import { niceTicks } from '../../../assets/lib/canvas/ticks.mjs';
import { rowTicks } from '../../../assets/heat/draw.mjs';
import { blockAt, boxOfRank, geometryOf, heatData, hostData, NO_RANK, yOfRow, zoomOf } from '../../../assets/heat/geometry.mjs';
import { aboutMap, blockSentences, emptyMap, hatchingText } from '../../../assets/heat/messages.mjs';

const LEGEND = { metric: { title: 'Slowdown', unit: 'x', decimals: 2 }, full: 0.5, noise: 0.1, centre: 1 };

/** 10 ranks x 20 steps from step 100, pooled to 5 x 4; block (row, column) has byte 10 row + column. */
function pooled(order = 'rank') {
  return heatData({
    arrays: {
      code: Uint8Array.from({ length: 20 }, (_, i) => 10 * Math.floor(i / 4) + i % 4),
      rank: Uint32Array.from({ length: 10 }, (_, i) => 40 + i), rows: Uint32Array.of(0, 2, 4, 6, 8, 10),
      columns: Uint32Array.of(0, 5, 10, 15, 20),
      first_step: Float64Array.of(100, 105, 110, 115), last_step: Float64Array.of(104, 109, 114, 119),
    },
    meta: {
      height: 5, width: 4, rows: [40, 49], num_rows: 100, all_steps: [0, 999], legend: LEGEND,
      marks: [{ at: 0, label: 'pp 0' }, { at: 45, label: 'pp 1' }],
    },
  }, order);
}

const geometry = geometryOf(470, 144, { rowLabel: 60 });

test('edges find their block', () => {
  const edges = [0, 3, 4, 9];
  assert.deepEqual([0, 2, 3, 4, 8].map((value) => blockOf(edges, value)), [0, 0, 1, 2, 2]);
});

test('the block below a point knows its ranks, steps and byte', () => {
  const { plot } = geometry;
  const block = blockAt(pooled(), geometry, plot.x + plot.w * 0.55, plot.y + plot.h * 0.99);
  assert.deepEqual(block.rows, [8, 9]);
  assert.deepEqual(block.ranks, [48, 49]);
  assert.deepEqual(block.steps, [110, 114]);
  assert.equal(block.code, 42);
  assert.equal(blockAt(pooled(), geometry, plot.x - 1, plot.y), null);
});

test('places on the canvas are the inverse of the block below them', () => {
  const data = pooled();
  for (const step of [100, 107, 119]) {
    const block = blockAt(data, geometry, xOfStep(data, geometry, step) + 1, yOfRow(data, geometry, 3) + 1);
    assert.ok(block.steps[0] <= step && step <= block.steps[1]);
    assert.deepEqual(block.rows, [2, 3]);
  }
});

test('a dragged rectangle becomes rows of the whole map and steps', () => {
  const { plot } = geometry;
  const zoom = zoomOf(pooled(), geometry, { x: plot.x + plot.w * 0.3, y: plot.y + plot.h * 0.9 },
    { x: plot.x + plot.w * 0.6, y: plot.y + plot.h * 0.5 });
  assert.deepEqual(zoom, { rows: [44, 49], steps: [105, 114] });
});

test('a flat drag keeps all rows, a click is no zoom, a drag may end outside', () => {
  const { plot } = geometry;
  const flat = zoomOf(pooled(), geometry, { x: plot.x, y: plot.y + 20 }, { x: 9999, y: plot.y + 22 });
  assert.deepEqual(flat, { rows: [40, 49], steps: [100, 119] });
  assert.equal(zoomOf(pooled(), geometry, { x: 100, y: 50 }, { x: 102, y: 51 }), null);
});

test('steps whose numbers have gaps stand side by side and keep their numbers', () => {
  const steps = [5, 6, 7, 30_000_000];
  const data = {
    ...pooled(), code: new Uint8Array(20), columns: [0, 1, 2, 3, 4], firstStep: steps, lastStep: steps,
  };
  const { plot } = geometry;
  const at = (share) => blockAt(data, geometry, plot.x + plot.w * share, plot.y + 5).steps;
  assert.deepEqual([0.1, 0.3, 0.6, 0.9].map(at), steps.map((step) => [step, step]));
  assert.deepEqual(steps.map((step) => (xOfStep(data, geometry, step) - plot.x) / plot.w), [0, 0.25, 0.5, 0.75]);
  assert.equal(xOfStep(data, geometry, 9000), xOfStep(data, geometry, 30_000_000));
  assert.equal(xOfStep(data, geometry, 30_000_001), plot.x + plot.w);
  assert.deepEqual(stepTicks(data, geometry, 6).map(({ step }) => step), steps);
  const zoom = zoomOf(data, geometry, { x: plot.x + plot.w * 0.6, y: 20 }, { x: 9999, y: 21 });
  assert.deepEqual(zoom.steps, [7, 30_000_000]);
  assert.equal(aboutMap(data), '10 ranks × 4 steps, largest deviation per pixel');
  assert.deepEqual(stepTicks(pooled(), geometry, 4).map(({ step }) => step), [100, 105, 110, 115]);
});

test('ticks are round and few', () => {
  assert.deepEqual(niceTicks(0, 999, 5), [0, 200, 400, 600, 800]);
  assert.deepEqual(niceTicks(0, 11, 20), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
  assert.deepEqual(niceTicks(5, 5, 3), [5]);
});

test('rows by place have the names of their stages, from where they begin in the window', () => {
  assert.deepEqual(rowTicks(pooled('place'), 100).map(({ at, label }) => [at, label]), [[0, 'pp 0'], [5, 'pp 1']]);
  assert.deepEqual(rowTicks(pooled(), 100).map(({ label }) => label), ['40', '42', '44', '46', '48']);
});

test('a selected rank is found and always thick enough to see', () => {
  const box = boxOfRank(pooled(), geometry, 43);
  assert.equal(box.y, yOfRow(pooled(), geometry, 3));
  assert.equal(boxOfRank(pooled(), geometry, 7), null);
  const thin = boxOfRank(pooled(), geometryOf(470, 60, { rowLabel: 60 }), 43);
  assert.equal(thin.h, 3);
});

const hosts = hostData({
  arrays: { code: Uint8Array.of(1, 255, 1, 0), rank: Uint32Array.of(0, 1, 2, NO_RANK), rows: Uint32Array.of(0, 1, 2) },
  meta: { height: 2, width: 2, hosts: ['a', 'b'], steps: [0, 9], legend: LEGEND },
});

test('hosts: a cell is a rank, and a slot without one has none', () => {
  const { plot } = geometry;
  const at = (x, y) => blockAt(hosts, geometry, plot.x + plot.w * x, plot.y + plot.h * y).ranks[0];
  assert.deepEqual([at(0.1, 0.1), at(0.9, 0.1), at(0.1, 0.9), at(0.9, 0.9)], [0, 1, 2, NO_RANK]);
  assert.deepEqual(rowTicks(hosts, 100).map(({ label }) => label), ['a', 'b']);
  const box = boxOfRank(hosts, geometry, 1);
  assert.deepEqual([box.x, box.w], [plot.x + plot.w / 2, plot.w / 2]);
});

test('a tip names the block, the cell it has its colour from, and what is noise', () => {
  const { plot } = geometry;
  const block = blockAt(pooled(), geometry, plot.x + plot.w * 0.55, plot.y + plot.h * 0.99);
  const cell = { rank: 49, step: 113, value: 1.406, peers_ms: 243.06 };
  assert.deepEqual(blockSentences(pooled(), block, cell), [
    '2 ranks, 48 to 49; steps 110 to 114', 'furthest: rank 49, step 113', 'Slowdown 1.41 x',
    "peers' median 243 ms of compute",
  ]);
  assert.deepEqual(blockSentences(pooled(), { ...block, code: 0 }, null).slice(1), ['not recorded']);
  assert.equal(blockSentences(pooled(), { ...block, code: 1 }, cell).at(-1), 'within noise');
  const nobody = { rows: [1, 1], steps: [1, 1], ranks: [NO_RANK, NO_RANK], code: 0 };
  assert.equal(blockSentences(hosts, nobody, null)[0], 'b, no rank in slot 1');
});

test('a map says how much it shows, and why it shows nothing', () => {
  assert.equal(aboutMap(pooled()), '10 ranks × 20 steps, largest deviation per pixel');
  assert.equal(aboutMap({ ...pooled(), isPart: true }), 'the newest 20 steps; loading the others');
  assert.equal(aboutMap({ ...pooled(), isCut: true }), '10 ranks × 20 steps: too many to show all at once; choose others in the strip above');
  assert.equal(aboutMap(hosts), '2 hosts, steps 0 to 9');
  assert.equal(emptyMap(pooled()), '');
  assert.equal(emptyMap({ ...pooled(), width: 0, nothing: 'There are no steps.' }), 'There are no steps.');
  assert.equal(emptyMap({ ...pooled(), code: new Uint8Array(20) }), '“Slowdown” is not recorded for this part.');
});

test('few ranks have nothing to compare their first steps with, which are recorded', () => {
  const data = { code: Uint8Array.of(0, 1, 1, 0, 1, 1), width: 3, firstStep: [0, 3, 6], lastStep: [2, 5, 8], comparedFrom: 3, kind: 'steps' };
  assert.equal(hatchingText(data), 'no earlier steps to compare with');
  assert.equal(hatchingText({ ...data, code: Uint8Array.of(0, 0, 1, 0, 1, 1) }), 'not recorded, or no earlier steps to compare with');
  assert.equal(hatchingText({ ...data, comparedFrom: null }), 'not recorded');
  const block = { code: 0, ranks: [0, 0], rows: [0, 0], steps: [2, 2] };
  assert.deepEqual(blockSentences(data, block, null).slice(1), ['no earlier steps to compare with']);
  assert.deepEqual(blockSentences(data, { ...block, steps: [4, 4] }, null).slice(1), ['not recorded']);
});
