import assert from 'node:assert/strict';
import { test } from 'node:test';
import { along, extent, pathOf, placed, radius, roofCorners, roofsOf } from '../../../assets/roofline/geometry.mjs';

const MM = { intensity: 1365, tflops_per_s: 687, precision: 'half' };
const ADD = { intensity: null, tflops_per_s: null, precision: 'half' };
const BMM = { intensity: 0.5, tflops_per_s: 0.01, precision: 'float32' };
const ROOFS = { tflops: { half: 989, tf32: 494, float32: 67, float8: null }, gb_per_s: 3350, given: null };

test('only operations with FLOPs and bytes have a place', () => {
  assert.deepEqual(placed([MM, ADD, BMM]), [MM, BMM]);
});

test('roofs are those of the precisions that occur, or the one that is given', () => {
  assert.deepEqual(roofsOf([MM, ADD, BMM], ROOFS), [{ precision: 'half', tflops: 989 }, { precision: 'float32', tflops: 67 }]);
  assert.deepEqual(roofsOf([MM], { ...ROOFS, given: 500 }), [{ precision: 'given', tflops: 500 }]);
  assert.deepEqual(roofsOf([MM], null), []);
});

test('axes go over whole powers of ten around points, roofs and their knees', () => {
  assert.deepEqual(extent([MM], [{ tflops: 989 }], 3350), { x: [2, 4], y: [2, 3] });
  assert.deepEqual(extent([BMM], [], null), { x: [-1, 0], y: [-2, -1] });
});

test('a roof rises with the bandwidth to its knee, and is flat where the bandwidth is unknown', () => {
  const axes = { x: [-1, 4], y: [-3, 3] };
  assert.deepEqual(roofCorners(1000, 1000, axes), [[0.1, 0.1], [1000, 1000], [10_000, 1000]]);
  assert.deepEqual(roofCorners(1000, null, axes), [[0.1, 1000], [10_000, 1000]]);
  assert.deepEqual(roofCorners(1000, 1000, { x: [-1, 2], y: [0, 3] }), [[1, 1], [100, 100]]);  // enters from below, no knee
  assert.deepEqual(roofCorners(1, 1000, { x: [1, 2], y: [-1, 1] }), [[10, 1], [100, 1]]);
});

test('places are logarithmic, with the highest speed on top', () => {
  const axes = { x: [0, 2], y: [0, 2] };
  assert.equal(along(10, axes.x, 100), 50);
  assert.equal(pathOf([[1, 1], [100, 10]], axes, { width: 100, height: 50 }), 'M0.0 50.0L100.0 25.0');
});

test('the area of a point is its share of the time', () => {
  assert.equal(radius(0, 10), 3);
  assert.equal(radius(10, 10), 16);
  assert.equal(radius(2.5, 10), 9.5);
  assert.equal(radius(0, 0), 3);
});
