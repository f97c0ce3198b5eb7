import assert from 'node:assert/strict';
import { test } from 'node:test';
import { duration } from '../../../assets/lib/value_text.mjs';
import { barsOf, bytes, callCells, headline, NOT_RECORDED, nowText, ranksText, slowSentences } from '../../../assets/startup/text.mjs';

test('times and sizes as text', () => {
  assert.deepEqual([null, 0, 0.0042, 0.23, 0.9996, 4.21, 110, 720, 9000].map(duration),
    ['unknown', '0 s', '4.2 ms', '230 ms', '1.0 s', '4.2 s', '110 s', '12.0 min', '2.5 h']);
  assert.deepEqual([null, 12, 3_000_000, 2.5e9].map(bytes), ['', '12 B', '3.0 MB', '2.5 GB']);
  assert.equal(ranksText([1]), 'rank 1');
  assert.equal(ranksText([...Array(11).keys()]), 'ranks 0, 1, 2, 3, 4, 5, 6, 7 and 3 more');
});

const SLOW = { phase: 'restore', ranks: [2], seconds: 9, usual_s: 1, cost_s: 7.5, what: 'load at a.py:3' };
const DOING = { restore: 'reading a checkpoint' };

test('who was slow, after and before the first step', () => {
  const said = (isOver) => slowSentences({ slow: [SLOW], groups: null, doing: DOING, is_over: isOver })[0];
  assert.equal(said(true), 'Rank 2: 9.0 s reading a checkpoint (load at a.py:3), the others 1.0 s. Without that, the first step would have ended up to 7.5 s earlier.');
  assert.match(said(false), /The others have waited 7\.5 s for that\.$/);
  assert.match(slowSentences({ slow: [], groups: { num_groups: 40, seconds: 20 }, doing: {}, is_over: true })[0], /40 process groups took all ranks 20\.0 s, 500 ms each/);
});

test('how long the start took, or takes so far', () => {
  const found = { is_over: true, seconds: 20, num_ranks: 4, recorded: 0.987 };
  assert.equal(headline(found), '20.0 s from the start of the first process to the end of the last first step, on 4 ranks. 98.7 % of that is recorded.');
  assert.match(headline({ ...found, is_over: false }), /^Starting for 20\.0 s: 4 ranks so far/);
});

test('what a rank does now', () => {
  assert.equal(nowText({ now: { phase: 'restore', seconds: 4, what: 'load' } }, DOING), 'reading a checkpoint for 4.0 s: load');
  assert.equal(nowText({ now: null }, DOING), '');
});

const RANK = {
  step_begin_s: 6, step_end_s: 10, parts: { 'warm-up': 3, 'first step': 1 },
  bars: [{ phase: 'model', what: 'x', begin_s: 0, seconds: 6 }],
};

test('the first step lies behind what runs inside of it, warm-up first', () => {
  const [warm, step, model] = barsOf(RANK, 20);
  assert.deepEqual([warm.part, warm.left, warm.width], ['warm-up', 0.3, 0.2]);
  assert.deepEqual([step.part, step.left, step.width], ['first step', 0.45, 0.05]);
  assert.deepEqual([model.part, model.left, model.width, model.what], ['model', 0, 0.3, 'model, 6.0 s: x']);
});

test('a rank that still starts has no step', () => {
  assert.deepEqual(barsOf({ ...RANK, step_begin_s: null, step_end_s: null }, 20).map((bar) => bar.part), ['model']);
});

test('a read of a checkpoint as cells', () => {
  const call = { step: -1, action: 'read', name: 'torch.load', num_ranks: 4, longest_s: 2, num_bytes: 4e9, mb_per_s: 500, num_failed: 0 };
  assert.deepEqual(callCells(call), ['before the first step', 'read', 'torch.load', '4', '2.0 s', '4.0 GB', '500.0 MB/s', '']);
  assert.equal(callCells({ ...call, mb_per_s: 2345.6 })[6], '2.3 GB/s');
  assert.deepEqual(callCells({ ...call, step: 7, action: 'background', num_bytes: null, mb_per_s: null, num_failed: 1 }).slice(0, 2), ['step 7', 'save, in the background']);
});

test('1.7 is the schema of the files, no version of the hooks', () => {
  assert.match(NOT_RECORDED, /schema 1\.7/);
  assert.doesNotMatch(NOT_RECORDED, /Hooks since/);
});
