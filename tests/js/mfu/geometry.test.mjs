import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changeBars, waterfallRows } from '../../../assets/mfu/geometry.mjs';

const BARS = [{ name: 'compute', title: 'Kernels below peak', share: 0.35 }, { name: 'data', title: 'Waiting for data', share: 0.25 }];

test('parts hang below the peak, each from where the last one ends, down to the MFU', () => {
  const rows = waterfallRows({ mfu: 0.4, bars: BARS });
  assert.deepEqual(rows.map(({ title }) => title), ['Peak of the devices', 'Kernels below peak', 'Waiting for data', 'MFU']);
  assert.deepEqual(rows.map(({ from, to }) => [from, to]), [[0, 1], [0.65, 1], [0.4, 0.65], [0, 0.4]]);
});

test('without an MFU the parts reach down to nothing', () => {
  const rows = waterfallRows({ mfu: null, bars: [{ ...BARS[0], share: 0.75 }, BARS[1]] });
  assert.deepEqual(rows.map(({ title }) => title), ['Time of the devices', 'Kernels below peak', 'Waiting for data']);
  assert.equal(rows[2].from, 0);
});

test('changes lie on both sides of a common zero', () => {
  const { zero, bars } = changeBars([{ points: 3, low: 2, high: 4 }, { points: -1, low: -1, high: -0.5 }]);
  assert.equal(zero, 0.2);
  assert.deepEqual(bars, [{ from: 0.2, to: 0.8, low: 0.6, high: 1 }, { from: 0, to: 0.2, low: 0, high: 0.1 }]);
});

test('no change at all is drawn at zero', () => {
  assert.deepEqual(changeBars([{ points: 0, low: 0, high: 0 }]), { zero: 0, bars: [{ from: 0, to: 0, low: 0, high: 0 }] });
});
