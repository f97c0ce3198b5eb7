import assert from 'node:assert/strict';
import { test } from 'node:test';

import { IN_NOISE, NO_DATA } from '../../../assets/lib/canvas/colour.mjs';
import { amount, cellAt, cellLines, cellText, codeOfValue, geometryOf, moved, SCALE, sizeText, slowestPairs, timesText, trafficText } from '../../../assets/selftest/cells.mjs';

const NONE = NaN;
const MATRIX = {
  what: 'rank', unit: 'GB/s', usual: 40, names: ['0', '1', '2'], texts: { '0,1': 'a to b', '0,2': 'a to c' },
  value: new Float32Array([NONE, 40, 10, 40, NONE, 44, 10, 44, NONE]),
};

test('the slower a pair, the stronger its colour; as usual is grey', () => {
  assert.equal(codeOfValue(MATRIX, 40), IN_NOISE);
  assert.equal(codeOfValue(MATRIX, NONE), NO_DATA);
  const [half, quarter, eighth] = [20, 10, 5].map((value) => codeOfValue(MATRIX, value));
  assert.ok(half % 2 === 1 && half < quarter && quarter === eighth && quarter === 255);
  assert.equal(codeOfValue(MATRIX, 160) % 2, 0);
  assert.deepEqual([SCALE[0], SCALE[16], SCALE.at(-1)], [codeOfValue(MATRIX, 160), IN_NOISE, quarter], 'the scale has both colours');
});

test('the steps of a run on one host achieved nothing between hosts', () => {
  assert.equal(trafficText({ names: ['a'] }), 'Below: what the steps of this run achieved inside its host.');
  assert.equal(trafficText({ names: ['a', 'b'] }), 'Below: what the steps of this run achieved between hosts.');
});

test('cells are found at points and by arrows', () => {
  const geometry = geometryOf(MATRIX, 400);
  const { x, y, cell } = geometry;
  assert.deepEqual(cellAt(MATRIX, geometry, { x: x + 2.5 * cell, y: y + 0.5 * cell }), { row: 0, column: 2 });
  assert.equal(cellAt(MATRIX, geometry, { x: x - 1, y: y + 1 }), null);
  assert.equal(cellAt(MATRIX, geometry, { x: x + 3.1 * cell, y: y + 1 }), null);
  assert.deepEqual(moved(MATRIX, null, 'ArrowDown'), { row: 0, column: 1 });
  assert.deepEqual(moved(MATRIX, { row: 2, column: 2 }, 'ArrowDown'), { row: 2, column: 2 });
  assert.deepEqual(moved(MATRIX, { row: 1, column: 1 }, 'ArrowLeft'), { row: 1, column: 0 });
  assert.equal(moved({ ...MATRIX, names: [] }, null, 'ArrowLeft'), null);
});

test('a thousand hosts fit a phone', () => {
  const names = Array.from({ length: 1000 }, (_, i) => `node${i}`);
  const { x, width, cell } = geometryOf({ ...MATRIX, names }, 360);
  assert.ok(x < width / 3 && cell === 1);
});

test('texts', () => {
  assert.deepEqual(cellLines(MATRIX, { row: 2, column: 0 }), ['rank 2 and rank 0', '10 GB/s, 4 times as long as usual', 'a to c']);
  assert.deepEqual(cellLines(MATRIX, { row: 1, column: 1 }), ['rank 1', 'a rank is not paired with itself']);
  assert.deepEqual(cellLines({ ...MATRIX, what: 'host' }, { row: 1, column: 1 }), ['1', 'not measured']);
  assert.deepEqual([1, 2.44, 0.5].map(timesText), ['about as usual', '2.44 times as long as usual', '2 times as fast as usual']);
  assert.deepEqual([0, 0.000029, 0.01234, 84.6, 310].map(cellText), ['0', '<0.01', '0.012', '85', '310']);
  assert.deepEqual([0, 0.001234, 12.345, 1234.5].map(amount), ['0', '0.00123', '12.3', '1,235']);
  assert.deepEqual([65536, 8 << 20].map(sizeText), ['64 KiB', '8 MiB']);
});

test('the slowest pairs come first, each once', () => {
  assert.deepEqual(slowestPairs(MATRIX, 2), [{ row: 0, column: 2, value: 10 }, { row: 0, column: 1, value: 40 }]);
});
