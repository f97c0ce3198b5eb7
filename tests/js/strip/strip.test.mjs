/** The step-time strip: where steps lie, what a column shows, how the brush moves. */
import assert from 'node:assert/strict';
import test from 'node:test';

import {
  axisOf, brush, ceiling, clippedBars, columns, extent, marksNear, moved, placeLabels, pointAt, stepAt, ticks, underlineRows, xOf,
} from '../../../assets/strip/geometry.mjs';
import { milliseconds, paragraph, pointSentences, scopeText, shownMarks, stripLabel } from '../../../assets/strip/messages.mjs';

const points = {
  first: [10, 12, 14], last: [11, 13, 14], step: [11, 12, 14], ms: Float32Array.from([100, 900, NaN]),
};

test('steps and pixels', () => {
  const range = extent(points);
  assert.deepEqual(range, [10, 14]);
  assert.equal(extent({ first: [], last: [], step: [], ms: [] }), null);
  assert.equal(xOf(range, 500, 10), 0);
  assert.equal(xOf(range, 500, 15), 500);
  for (let step = 10; step <= 14; step++) {
    assert.equal(stepAt(range, 500, xOf(range, 500, step) + 1), step);
  }
  assert.equal(stepAt(range, 500, -20), 10);
  assert.equal(stepAt(range, 500, 900), 14);
});

test('steps whose numbers have gaps stand side by side and keep their numbers', () => {
  const first = [0, 1, 2, 30_000_000];
  const axis = axisOf({ first, last: first, step: first, ms: Float32Array.of(1, 2, 3, 4) });
  assert.deepEqual(axis.range, [0, 3]);
  assert.deepEqual(first.map(axis.place), [0, 1, 2, 3]);
  assert.deepEqual([0, 1, 2, 3].map(axis.step), first);
  assert.deepEqual([axis.place(3), axis.place(30_000_001)], [3, 4]);
  assert.deepEqual([...columns(axis.points, axis.range, 8)], [1, 1, 2, 2, 3, 3, 4, 4]);
  assert.deepEqual(moved([2, 2].map(axis.place), axis.range, 1, false).map(axis.step), [30_000_000, 30_000_000]);
  assert.equal(axis.step(4), 30_000_000, 'beyond the run: its last');
  const even = axisOf(points);
  assert.deepEqual([even.range, even.place(12), even.step(12)], [[10, 14], 12, 12]);
  assert.equal(axisOf({ first: [], last: [], step: [], ms: [] }), null);
});

test('the point that holds a step', () => {
  assert.deepEqual([10, 11, 12, 13, 14].map((step) => pointAt(points, step)), [0, 0, 1, 1, 2]);
  assert.equal(pointAt(points, 9), -1);
  assert.equal(pointAt(points, 15), -1);
});

test('a lone slow step stays visible in a column shared by many', () => {
  const many = { first: [], last: [], step: [], ms: [] };
  for (let step = 0; step < 10000; step++) {
    many.first.push(step);
    many.last.push(step);
    many.step.push(step);
    many.ms.push(step === 4321 ? 700 : 100);
  }
  const greatest = columns(many, [0, 9999], 800);
  assert.equal(Math.max(...greatest), 700);
  assert.ok(greatest.filter((value) => value === 700).length <= 2);
  assert.ok(greatest.every((value) => !Number.isNaN(value)));
});

test('a first step of seconds does not flatten the rest', () => {
  const ms = [5000, ...Array(99).fill(100)];
  const shape = { first: ms, last: ms, step: ms, ms: Float32Array.from(ms) };
  assert.ok(ceiling(shape, 100) < 200);
  assert.ok(ceiling({ ms: Float32Array.from([NaN]) }, null) > 0);
});

test('a brush is first and last, whichever way it was drawn', () => {
  assert.deepEqual(brush(7, 3), [3, 7]);
  assert.deepEqual(brush(3, 3), [3, 3]);
});

test('arrow keys move the brush within the run, shift widens it', () => {
  const range = [0, 20];
  assert.deepEqual(moved(null, range, -1, false), [20, 20]);
  assert.deepEqual(moved([5, 8], range, 1, false), [6, 9]);
  assert.deepEqual(moved([17, 20], range, 1, false), [17, 20]);
  assert.deepEqual(moved([0, 3], range, -1, false), [0, 3]);
  assert.deepEqual(moved([5, 8], range, 1, true), [5, 9]);
  assert.deepEqual(moved([5, 5], range, -1, true), [5, 5]);
});

test('sentences about a step', () => {
  const marks = [{ step: 12, kind: 'fault', text: 'rank 5 slow' }, { step: 99, kind: 'note', text: 'x' }];
  const stretches = [{ first: 12, last: 14, text: 'Rank 5 is slow.' }, { first: 0, last: 3, text: 'no' }];
  assert.deepEqual(
    pointSentences(points, 1, marksNear(marks, 12, 0), stretches),
    ['Step 12: 900 ms, the slowest of 12 to 13', 'rank 5 slow', 'Rank 5 is slow.']);
  assert.deepEqual(pointSentences(points, 2, [], []), ['Step 14: not finished']);
  assert.equal(milliseconds(12345), '12.3 s');
  assert.equal(milliseconds(1234), '1,234 ms');
  assert.equal(milliseconds(1.25), '1.3 ms');
});

test('labels are round and few', () => {
  assert.deepEqual(ticks([0, 13], 7), [0, 2, 4, 6, 8, 10, 12]);
  for (const last of [123456, 30_000_000, 4e15]) assert.ok(ticks([0, last], 10).length <= 11);
  assert.deepEqual(ticks([0, 29_999_999], 6), [0, 5e6, 1e7, 1.5e7, 2e7, 2.5e7]);
  assert.ok(ticks([18160, 18204], 6).every((step) => step % 10 === 0));
});

test('the label names one step or a range, and the table has full sentences', () => {
  assert.equal(stripLabel([0, 13], 2271), 'Step times of steps 0 to 13, median 2,271 ms.');
  assert.equal(stripLabel([6, 6], null), 'Step times of step 6, median unknown.');
  assert.equal(paragraph(['Step 8: 100 ms', 'Checkpoint, 5 ms not hidden.']), 'Step 8: 100 ms. Checkpoint, 5 ms not hidden.');
});

test('a step beyond the scale has its value printed; the greatest come first where there is no room', () => {
  const first = [...Array(20).keys()];
  const ms = Float64Array.from(first, (step) => (step === 7 ? 700 : step === 8 ? 650 : step === 15 ? 500 : 100));
  const bars = clippedBars({ first, last: first, step: first, ms }, 180);
  assert.deepEqual(bars, [{ place: 7, ms: 700 }, { place: 8, ms: 650 }, { place: 15, ms: 500 }]);
  const labels = placeLabels(bars.map(({ place, ms }) => ({ text: `${ms}`, ms, middle: place * 10 })), () => 30, 0, 160);
  assert.deepEqual(labels.map(({ text }) => text), ['700', '500'], '650 has no room next to 700');
  assert.deepEqual(labels.map(({ left }) => left), [55, 130], 'within the strip');
  assert.deepEqual(clippedBars({ first, last: first, step: first, ms: ms.fill(NaN) }, 180), []);
});

test('findings of the same steps have underlines of their own', () => {
  const of = (first, last) => ({ first, last });
  assert.deepEqual(underlineRows([of(4, 9), of(4, 9), of(8, 12), of(13, 20)]), [0, 1, 2, 0]);
  assert.deepEqual(underlineRows([]), []);
  const many = underlineRows(Array.from({ length: 9 }, () => of(0, 5)));
  assert.deepEqual(many, [0, 1, 2, 3, 3, 3, 3, 3, 3]);
});

test('planted faults are hidden unless the view asks for them; real marks stay', () => {
  const marks = [{ step: 8, kind: 'fault', text: 'Injected fault: slow' }, { step: 9, kind: 'restart', text: 'Attempt 1' },
    { step: 9, kind: 'error', text: 'OOM' }];
  assert.deepEqual(shownMarks(marks, false).map(({ kind }) => kind), ['restart', 'error']);
  assert.equal(shownMarks(marks, true).length, 3);
});

test('the chip names the steps on screen, and why these', () => {
  assert.equal(scopeText({ steps: [10, 29], why: 'the newest 20' }), 'steps 10 to 29, the newest 20');
  assert.equal(scopeText({ steps: [3, 3], why: '' }), 'step 3');
  assert.equal(scopeText(null), '');
});
