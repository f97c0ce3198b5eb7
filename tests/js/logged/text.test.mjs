import assert from 'node:assert/strict';
import { test } from 'node:test';
import { badPath, badText, extremes, linePath, newest, rangePath, rows, seriesOf, xOf } from '../../../assets/logged/text.mjs';

const BOX = { width: 100, height: 10 };
const SCALE = { share: (value) => value / 10 };
const SERIES = { first: [0, 2, 4, 6], last: [1, 3, 5, 6], mean: [2, NaN, 5, 10], least: [1, NaN, 5, 10], greatest: [9, NaN, 5, 10], bad: [0, 2, 0, 0] };

test('a line breaks where no value is finite, and a value alone is a dot', () => {
  assert.equal(linePath(SERIES, SCALE, BOX), 'M8.3 8.0h.01M75.0 5.0L100.0 0.0');
  assert.equal(xOf({ first: [7], last: [7] }, 0, 100), 50);
});

test('a spike within a column and steps that are not finite are seen', () => {
  assert.equal(rangePath(SERIES, SCALE, BOX), 'M8.3 9.0V1.0');
  assert.equal(badPath(SERIES, BOX), 'M41.7 0V10');
});

test('the ends of the axis are values that were logged', () => {
  assert.deepEqual(extremes(SERIES), ['1', '10']);
  assert.deepEqual(extremes({ least: [NaN], greatest: [NaN] }), ['', '']);
});

test('what is said of a number', () => {
  const said = { step: 1200, value: 2.34567, highest: 11.5, highest_step: 40, num_bad: 0, first_bad: null };
  assert.equal(newest(said), '2.346 in step 1,200, highest 11.5 in step 40');
  assert.equal(newest({ ...said, value: null, highest: null, highest_step: null }), 'not finite in step 1,200');
  assert.equal(badText(said), '');
  assert.equal(badText({ num_bad: 1, first_bad: 7 }), 'NaN or infinite in step 7');
  assert.equal(badText({ num_bad: 3, first_bad: 7 }), 'NaN or infinite in 3 steps, first in step 7');
});

test('the newest values of numbers that are not logged in the same steps', () => {
  const lr = seriesOf({ lr_first: [6], lr_last: [6], lr_mean: [0.001], lr_least: [0.001], lr_greatest: [0.001], lr_bad: [0] }, 'lr');
  assert.deepEqual(rows({ loss: SERIES, lr }, 3), [['6', '10', '0.001'], ['4 to 5', '5', 'not logged'], ['2 to 3', 'not finite', 'not logged']]);
});
