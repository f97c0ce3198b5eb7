import assert from 'node:assert/strict';
import { lineScale } from '../../../../assets/lib/canvas/line_scale.mjs';
import { test } from 'node:test';

import { answerTexts } from '../../../../assets/lib/commands.mjs';
import {
  around, columnAt, compare, differenceText, expectedLosses, isClear, reliabilityText,
} from '../../../../assets/model/perturb/loss_series.mjs';
import {
  FIELDS, fieldsOf, formOf, kindText, perturbationRows, patchOf, perturbationOf, placeText, stateText,
  whyNot,
} from '../../../../assets/model/perturb/perturb_form.mjs';
import { captureProgress, requestOf } from '../../../../assets/timeline/panels/kernel_capture.mjs';

/** Losses of single steps. */
function series(first, values) {
  const steps = values.map((_, at) => first + at);
  return {
    first: steps, last: steps, mean: values, least: values, greatest: values,
    bad: values.map((value) => (Number.isFinite(value) ? 0 : 1)), steps: [first, first + values.length - 1],
  };
}

test('the form begins with something that can be sent, and the address keeps what differs', () => {
  const form = formOf({ p_layer: '3', view: 'perturb' });
  assert.deepEqual(perturbationOf(form, ['gaussian']),
    { id: 'gaussian-2', kind: 'gaussian', target: 'weights', layer: 3, strength: 0.01, seed: 0, num_steps: 10 });
  assert.deepEqual(patchOf('layer', '3'), { p_layer: '3' });
  assert.deepEqual(patchOf('layer', FIELDS.layer), { p_layer: null });
});

test('a kind has the fields that it needs, and sends no others', () => {
  const filled = { ...FIELDS, layer: '1', head: '2', strength: '0.5', bit: '30', extent: '4', seed: '7', module: 'attention', from: '100', steps: '5' };
  const sent = (more) => perturbationOf({ ...filled, ...more }, []);
  assert.deepEqual(sent({ kind: 'bit_flip' }),
    { id: 'bit_flip', kind: 'bit_flip', target: 'weights', layer: 1, module: 'attention', bit: 30, extent: 4, seed: 7, steps: [100, 104] });
  assert.deepEqual(sent({ kind: 'ablate', target: 'activations' }),
    { id: 'ablate', kind: 'ablate', target: 'activations', layer: 1, module: 'attention', head: 2, extent: 4, steps: [100, 104] });
  assert.deepEqual(sent({ kind: 'flat_attention', target: 'weights', module: 'mlp' }),
    { id: 'flat_attention', kind: 'flat_attention', target: 'activations', layer: 1, module: 'attention', head: 2, steps: [100, 104] });
  assert.deepEqual(sent({ kind: 'offset', target: 'residual' }),
    { id: 'offset', kind: 'offset', target: 'residual', layer: 1, strength: 0.5, extent: 4, steps: [100, 104] });
  assert.ok(!fieldsOf({ ...filled, kind: 'gaussian', target: 'activations', module: 'mlp' }).has('head'));
});

test('what is no number is named', () => {
  const sent = (more) => () => perturbationOf({ ...FIELDS, ...more }, []);
  assert.throws(sent({ layer: 'x' }), /Layer is "x"/);
  assert.throws(sent({ strength: '' }), /Strength is ""; give a number/);
  assert.throws(sent({ steps: '0' }), /give 1 at least/);
  assert.throws(sent({ from: '-1' }), /From step is "-1"/);
  assert.throws(sent({ kind: 'flat_attention' }), /Head is ""/);
});

test('why nothing can be asked is one sentence that says what to do', () => {
  const all = { may_ask: true, connected: 4, world_size: 4, ranks: '0-3', allow_perturbation: '0-3' };
  assert.equal(whyNot(all), null);
  assert.match(whyNot({ ...all, may_ask: false }), /role operator/);
  assert.match(whyNot({ ...all, connected: 0 }), /No rank of this run is connected/);
  assert.match(whyNot({ ...all, connected: 3 }), /3 of 4 ranks are connected: wait/);
  assert.match(whyNot({ ...all, allow_perturbation: '' }), /allow_perturbation=True/);
  assert.match(whyNot({ ...all, allow_perturbation: '0-1' }), /Only ranks 0-1 of 0-3/);
});

test('the list has what waits, what is under way and what is over', () => {
  const one = (id, first, state) => ({ key: `0.${id}.${first}`, perturbation: { id, steps: [first, first + 9] }, first, last: first + 9, state, why: 'its last step is done', num_tensors: 2 });
  const rows = perturbationRows([one('a', 5, 'over'), one('b', 50, 'under way')], [one('b', 50), { ...one('c', 90), ranks: '0-3' }]);
  assert.deepEqual(rows.map(({ perturbation, state, canEnd }) => [perturbation.id, state, canEnd]),
    [['c', 'waiting', true], ['b', 'under way', true], ['a', 'over', false]]);
  assert.equal(perturbationRows([], [{ ...one('c', 90), ranks: '0-3' }], 91)[0].state, 'under way');  // its marks are yet to come
  assert.deepEqual(rows.map(stateText), ['begins with step 90', 'under way', 'over: its last step is done']);
  assert.equal(stateText({ state: 'over', why: 'somebody ended it', num_tensors: 0 }), 'over: somebody ended it; it changed nothing');
  assert.match(stateText({ state: 'cut off' }), /the job stopped within it/);
  assert.equal(placeText({ layer: 3, module: 'attention', head: 0 }), 'layer 3, attention, head 0');
  assert.equal(kindText({ kind: 'gaussian', strength: 0.1 }), 'Gaussian noise 0.1');
});

test('a twin makes the difference exact', () => {
  const base = Array.from({ length: 60 }, (_, at) => 5 - at / 100 + (at % 3) / 50);
  const mine = base.map((value, at) => (at >= 20 && at < 30 ? value + 0.5 : value));
  const comparison = compare(series(100, mine), series(100, base), { first: 120, last: 129 });
  assert.equal(comparison.isTwin, true);
  assert.deepEqual([comparison.parts.before.difference, comparison.parts.after.difference], [0, 0]);
  assert.ok(Math.abs(comparison.parts.within.difference - 0.5) < 1e-9);
  assert.ok(isClear(comparison.parts.within) && !isClear(comparison.parts.after));
  assert.match(reliabilityText(comparison, 'run b'), /exactly the same losses in the 20 steps before/);
});

test('a run that differs before is no twin, and its noise is in the error', () => {
  const noisy = (seed) => Array.from({ length: 50 }, (_, at) => 4 + Math.sin(at * 7.1 + seed) / 10);
  const comparison = compare(series(0, noisy(0)), series(0, noisy(2)), { first: 20, last: 29 });
  assert.equal(comparison.isTwin, false);
  assert.ok(!isClear(comparison.parts.within) && comparison.parts.within.error > 0.02);
  assert.match(reliabilityText(comparison, 'run b'), /not a twin/);
});

test('without another run, the text explains the extrapolation', () => {
  const values = Array.from({ length: 60 }, (_, at) => (at % 2 ? 3.1 : 2.9) + (at >= 40 && at < 44 ? 1 : 0));
  values[42] = NaN;
  values[30] = 99;
  const comparison = compare(series(0, values), null, { first: 40, last: 43 }, [{ first: 30, last: 30 }]);
  assert.equal(comparison.parts.before.count, 39);  // not the step of the other perturbation
  assert.ok(Math.abs(comparison.parts.before.without - 3) < 0.01 && Math.abs(comparison.parts.within.difference - 1.0333) < 0.02);
  assert.equal(comparison.bad, 1);
  assert.match(reliabilityText(comparison, null), /this is not a control/);
  assert.match(differenceText(comparison.parts.within), /^\+1\.0\d+ ± 0\.1/);
  const falling = compare(series(0, Array.from({ length: 60 }, (_, at) => 6 - at / 20 + (at % 2) / 1000)), null, { first: 40, last: 43 });
  assert.ok(!isClear(falling.parts.within) && !isClear(falling.parts.after), 'what falls as before has not changed');
  assert.ok(Math.abs(expectedLosses(falling.expected, [0, 60]).mean[1] - 3) < 0.01);
  const lone = compare(series(40, [4, 4]), null, { first: 40, last: 41 });
  assert.equal(lone.parts.before, null);
  assert.equal(differenceText(lone.parts.within), 'not known');
  assert.match(reliabilityText(lone, null), /too few steps before/);
});

test('axes: linear, or logarithmic where losses explode', () => {
  assert.equal(lineScale([series(0, [2, 3])]).isLog, false);
  const scale = lineScale([series(0, [2, 2000])]);
  assert.equal(scale.isLog, true);
  assert.ok(scale.share(2) > 0 && scale.share(2000) < 1 && scale.share(63) > 0.4);
  assert.ok(lineScale([series(0, [NaN])]).ticks.length > 1);
  assert.deepEqual(around(5, 9), [0, 29]);
  assert.deepEqual(around(1000, 1099), [900, 1199]);
  assert.equal(columnAt(series(10, [1, 2, 3]), 11.6), 2);
  assert.equal(columnAt(series(10, []), 3), -1);
});

test('answers of ranks are grouped', () => {
  const reply = { acks: [{ rank: 0, ok: true, text: 'taken' }, { rank: 1, ok: true, text: 'taken' }], silent: [5] };
  assert.deepEqual(answerTexts(reply), [
    { ok: false, text: 'rank 5: did not answer in time' }, { ok: true, text: 'ranks 0-1: taken' }]);
  assert.deepEqual(answerTexts({ error: 'No.' }), [{ ok: false, text: 'No.' }]);
});

test('a capture of kernels is asked for and followed to its end on every rank', () => {
  assert.deepEqual(requestOf({ steps: ' 3 ', ranks: 'all' }), { steps: 3, ranks: null });
  assert.deepEqual(requestOf({ steps: '50', ranks: '0-1, 5' }), { steps: 50, ranks: [0, 1, 5] });
  assert.throws(() => requestOf({ steps: '51', ranks: '' }), /give 1 to 50/);
  assert.throws(() => requestOf({ steps: '1', ranks: 'x' }), /Ranks are "x"/);
  const mark = (rank, step, text, attempt = 1) => ({ attempt, rank, step, text });
  const marks = [
    mark(1, 14, 'step 12 did not come, this is step 14: not captured'), mark(0, 15, '90 spans are on the timeline; making them took 3 ms'),
    mark(0, 14, 'captured 3 steps from step 12'), mark(2, 14, 'captured 3 steps from step 12'), mark(0, 9, '7 spans are on the timeline'),
    mark(1, 40, '9 spans are on the timeline', 0),
  ];
  const news = captureProgress(marks, { first: 12, attempt: 1, ranks: [0, 1] });
  assert.deepEqual([news.done, news.shown], [[0, 1], [0]]);
  assert.deepEqual(news.lines.map((line) => line.slice(0, 6)), ['rank 0', 'rank 0', 'rank 1']);
});
