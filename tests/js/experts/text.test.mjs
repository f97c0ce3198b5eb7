import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  aboutMap, cellLines, expertOf, furthest, holderText, layerText, milliseconds, percent, rowOf, seriesAbout, shownOf, stepLines, times, whole,
} from '../../../assets/experts/text.mjs';

const data = {
  layers: [
    { layer: 3, name: 'a', experts: 2, choices: 4000, dropped: 12 },
    { layer: 4, name: 'b', experts: 3, choices: 6000, dropped: -1 },
  ],
  experts: 3,
  code: Uint8Array.from([1, 90, 0, 200, 60, 61]),
  load: Float32Array.from([1, 1, NaN, 0.2, 1.3, 1.5]),
  tokens: Float64Array.from([2000, 2000, 0, 400, 2600, 3000]),
  holder: Int32Array.from([0, 0, -1, 0, 1, -1]),
  holders: Int32Array.from([1, 1, 0, 3, 1, 0]),
};

test('numbers as text', () => {
  assert.deepEqual([1.416, 0.031, 0, NaN].map(times), ['1.42 x', '0.031 x', '0.00 x', 'not recorded']);
  assert.deepEqual([0, 0.34, 0.021, 0.0004].map(percent), ['0 %', '34 %', '2.1 %', '0.04 %']);
  assert.deepEqual([147573.2, 0, -1].map(whole), ['147,573', '0', 'unknown']);
  assert.deepEqual([250, 80.34, 0.0312, null].map(milliseconds), ['250 ms', '80.3 ms', '0.031 ms', 'not recorded']);
  assert.deepEqual([layerText({ layer: 3 }), layerText({ layer: 3 }, true), layerText({ layer: -1, name: 'gate' })], ['layer 3', '3', 'gate']);
});

test('a layer with several routers', () => {
  const layers = ['decoder.3', 'encoder.3'].map((name, router) => ({ layer: 3, name, router, num_routers: 2 }));
  layers.push({ layer: 4, name: 'decoder.4', router: 0, num_routers: 1 });
  assert.deepEqual(layers.map((layer) => layerText(layer)), ['layer 3 (decoder.3)', 'layer 3 (encoder.3)', 'layer 4']);
  assert.deepEqual(layers.map((layer) => expertOf(layer, 5)), [[3, 5, 0], [3, 5, 1], [4, 5]]);
  assert.deepEqual([[3, 5, 1], [3, 5], [4, 5], [9, 5]].map((expert) => rowOf(layers, expert)), [1, 0, 2, -1]);
});

test('what is said of an expert', () => {
  assert.deepEqual(cellLines(data, { row: 1, expert: 0 }), [
    'layer 4, expert 0: 0.20 x the mean', '400 tokens, 6.7 % of the layer\'s choices', 'on rank 0 and 2 more', 'dropped tokens of the layer: unknown',
  ]);
  assert.equal(cellLines(data, { row: 0, expert: 1 }).at(-1), 'dropped in the layer: 12 choices');
  const balanced = { ...data, bias: Float32Array.from([0.0125, -0.5, 0, 0, 0, 0]) };
  balanced.layers = data.layers.map((layer) => ({ ...layer, aux_loss: 0.01234 }));
  assert.deepEqual(cellLines(balanced, { row: 0, expert: 0 }).slice(-2), ['bias +0.0125 in the newest of the steps', 'auxiliary loss of the layer 0.0123']);
  assert.equal(cellLines(balanced, { row: 0, expert: 1 }).at(-2), 'bias -0.5 in the newest of the steps');
  assert.equal(holderText(-1, 0), 'on which rank it lies was not recorded');
});

test('the strongest colours first, nothing that is within noise', () => {
  assert.deepEqual(furthest(data, 2).map(({ row, expert }) => [row, expert]), [[1, 0], [0, 1]]);
  assert.equal(furthest(data, 9).length, 4);
});

test('what map and lines show, and that not all ranks were read', () => {
  assert.equal(aboutMap({ ...data, steps: [20, 39], stride: 1 }), '2 layers x 3 experts, steps 20 to 39');
  assert.equal(aboutMap({ ...data, layers: data.layers.slice(1), steps: [5, 5], stride: 48 }), '1 layer x 3 experts, step 5, of one in 48 ranks');
  assert.match(seriesAbout({ window: [0, 39], stride: 1 }), /steps 0 to 39$/);
  assert.deepEqual(stepLines({ step: [7], worst: [2.6], worst_row: [0], middle: [0.5], fair: [0.07] }, [{ layer: 1, name: 'a' }], 0), [
    'step 7', 'worst layer: MaxVio 2.60 (layer 1)', 'median layer: MaxVio 0.50', 'a fair router stays below 0.07',
  ]);
  assert.equal(shownOf(128, 12288, 'ranks'), 'the first 128 of 12,288 ranks');
});
