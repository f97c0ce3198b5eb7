import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  clamped, clampedTo, clockTime, contains, formatBytes, formatNs, niceStep, padded, panned,
  SHORTEST_NS, ticks, zoomed,
} from '../../../../assets/lib/canvas/time_scale.mjs';
import { labelRoom } from '../../../../assets/timeline/lanes/geometry.mjs';

test('times have three digits and the unit that suits', () => {
  assert.equal(formatNs(7), '7 ns');
  assert.equal(formatNs(1_500), '1.50 µs');
  assert.equal(formatNs(12_345_678), '12.3 ms');
  assert.equal(formatNs(987_654_321), '988 ms');
  assert.equal(formatNs(61e9), '61.0 s');
  assert.equal(formatNs(-2e6), '-2.00 ms');
});

test('bytes; unknown is nothing', () => {
  assert.equal(formatBytes(524288), '524.3 kB');
  assert.equal(formatBytes(12), '12 B');
  assert.equal(formatBytes(-1), '');
});

test('steps of ticks are 1, 2 or 5', () => {
  assert.deepEqual([1, 1.1, 2.1, 5.1, 99, 100, 101].map(niceStep), [1, 2, 5, 10, 100, 100, 200]);
});

test('ticks count from the origin, in one unit, far enough apart', () => {
  const marks = ticks({ begin: 1_000_000_000, end: 1_400_000_000 }, 400, 1_050_000_000);
  assert.deepEqual(marks.map(({ label }) => label), ['0 ms', '100 ms', '200 ms', '300 ms']);
  assert.equal(marks[0].t, 1_050_000_000);
  for (const widthPx of [100, 333, 2000]) {
    for (const length of [100, 12_345, 7e9, 3.6e12]) {
      const many = ticks({ begin: 0, end: length }, widthPx, 0);
      assert.ok(many.length <= widthPx / 90 + 1, `${many.length} ticks in ${widthPx} px`);
      assert.equal(new Set(many.map(({ label }) => label)).size, many.length, 'labels differ');
    }
  }
});

test('zooming keeps the place under the mouse and has limits', () => {
  const span = { begin: 100, end: 10_100 };
  const near = zoomed(span, 2_600, 0.5);
  assert.deepEqual(near, { begin: 1_350, end: 6_350 });
  assert.equal((2_600 - near.begin) / (near.end - near.begin), (2_600 - 100) / 10_000);
  const nearest = zoomed(span, 100, 1e-9);
  assert.equal(nearest.end - nearest.begin, SHORTEST_NS);
  const widest = zoomed(span, 100, 1e9, 20_000);
  assert.equal(widest.end - widest.begin, 20_000);
});

test('panning and clamping keep the length', () => {
  assert.deepEqual(panned({ begin: 0, end: 10 }, 5), { begin: 5, end: 15 });
  const extent = { begin: 0, end: 1000 };
  for (const begin of [-1e6, -50, 400, 1e6]) {
    const span = clamped({ begin, end: begin + 100 }, extent);
    assert.equal(span.end - span.begin, 100);
    assert.ok(span.end > extent.begin && span.begin < extent.end, 'some of the run stays in sight');
  }
  assert.deepEqual(clamped({ begin: 400, end: 500 }, extent), { begin: 400, end: 500 });
});

test('padding, containing, cutting', () => {
  assert.deepEqual(padded({ begin: 0, end: 1000 }, 0.1), { begin: -100, end: 1100 });
  assert.ok(contains({ begin: 0, end: 10 }, { begin: 0, end: 10 }));
  assert.ok(!contains({ begin: 1, end: 10 }, { begin: 0, end: 10 }));
  assert.deepEqual(clampedTo({ begin: -5, end: 5 }, { begin: 0, end: 10 }), { begin: 0, end: 5 });
  assert.deepEqual(clampedTo({ begin: 20, end: 30 }, { begin: 0, end: 10 }), { begin: 20, end: 30 });
});

test('moments beyond 2^53 ns keep their milliseconds', () => {
  assert.match(clockTime('1795259040869159448', 1_000_000), /2026-11-21 11:04:00\.870 UTC/);
});

test('names of lanes get more room where ranks have more figures, and less on a phone', () => {
  assert.equal(labelRoom(1300, [0, 999]), 116);
  assert.equal(labelRoom(1300, [7, 1365]), 148);
  assert.equal(labelRoom(390, [7, 1365]), 76);
});
