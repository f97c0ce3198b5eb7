/** Hidden states in two dimensions: places of tokens, their way through the layers, what is pointed at. */
import assert from 'node:assert/strict';
import test from 'node:test';

import { roundTicks } from '../../../../assets/lib/canvas/ticks.mjs';
import { axesText, extentOf, nearest, pathOf, pointAt } from '../../../../assets/model/hidden_states/points.mjs';

const points = {  // two layers, three tokens; the last is not known in layer 5
  layers: [2, 5], tokens: [0, 4, 8], shares: [0.625, 0.041], step: 20, axes: { kind: 'first', step: 10, num_fitted: 1200 },
  point: Float32Array.of(0, 0, 1, 2, 10, -4, 3, 0, 4, 8, NaN, NaN),
};

test('a token is at one place in each layer', () => {
  assert.deepEqual(pointAt(points, 0, 2), [10, -4]);
  assert.equal(pointAt(points, 1, 2), null);
  assert.deepEqual(pathOf(points, 1), [{ layer: 2, row: 0, point: [1, 2] }, { layer: 5, row: 1, point: [4, 8] }]);
  assert.deepEqual(pathOf(points, 2).map(({ layer }) => layer), [2]);
});

test('all layers lie in one extent', () => {
  const [across, up] = extentOf(points);
  assert.deepEqual(across.map((value) => value.toFixed(2)), ['-0.60', '10.60']);
  assert.deepEqual(up.map((value) => value.toFixed(2)), ['-4.72', '8.72']);
  assert.deepEqual(extentOf({ point: Float32Array.of(NaN, 5) }), [[-1, 1], [4.7, 5.3]]);
  assert.deepEqual(extentOf({ point: Float32Array.of(0, 0) }), [[-1, 1], [-1, 1]]);
});

test('the nearest token is pointed at, where one is near', () => {
  const place = ([x, y]) => ({ x: 10 * x, y: 10 * y });
  assert.equal(nearest(points, 0, place, { x: 12, y: 17 }, 14), 1);
  assert.equal(nearest(points, 0, place, { x: 50, y: 50 }, 14), null);
  assert.equal(nearest(points, 1, place, { x: 0, y: 0 }, 14), null);
});

test('ticks are round, however small the values', () => {
  assert.deepEqual(roundTicks(-0.11, 0.23, 4), [-0.1, 0, 0.1, 0.2]);
  assert.deepEqual(roundTicks(-1200, 900, 5), [-1000, -500, 0, 500]);
});

test('the axes are described', () => {
  assert.equal(axesText(points), 'First two principal components of 1,200 states of step 10, the same for every step; '
    + 'they hold 63 % and 4.1 % of the squared distance from its centre in step 20');
  assert.match(axesText({ ...points, shares: [0.02, 0.01] }), /, which is little: use the axes of this step to see more$/);
  assert.match(axesText({ ...points, axes: { kind: 'random', step: 10, num_fitted: 3 } }), /^Two random directions, centre of step 10;/);
});
