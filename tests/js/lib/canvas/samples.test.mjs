import assert from 'node:assert/strict';
import test from 'node:test';

import { linePoints, valueText } from '../../../../assets/lib/canvas/samples.mjs';

test('values have three digits and a unit', () => {
  assert.equal(valueText(1110, 'MHz'), '1,110 MHz');
  assert.equal(valueText(2.5e9, 'B/s'), '2.5 GB/s');
  assert.equal(valueText(0, ''), '0');
  assert.equal(valueText(0.01234, 'cores'), '0.0123 cores');
  assert.equal(valueText(NaN, 'W'), 'not recorded');
});

test('a line begins at zero, and an unknown value breaks it', () => {
  const parts = linePoints([0, 1, 2, 3], [0, 10, null, 10], [0, 3], 300, 34);
  assert.deepEqual(parts, [[[0, 33], [100, 1]], [[300, 1]]]);
  assert.deepEqual(linePoints([0], [null], [0, 1], 10, 10), []);
  assert.ok(linePoints([0, 1], [0, 0], [0, 1], 10, 10).flat(2).every(Number.isFinite));
});
