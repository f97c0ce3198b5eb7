import assert from 'node:assert/strict';
import { test } from 'node:test';
import { conditions, idleText, savingText } from '../../../assets/experts/ping_pong.mjs';

const apart = {
  stage: -1, num_ranks: 8, on_same_ranks: false, attention_ms: 1, expert_ms: 0.7, transfer_ms: 0.4, micro_batches: 2, layers: 32,
  total_ms: 81, least: 3, are_equal: false, is_transfer_hidden: true, are_enough: false, attention_idle: 0.21, experts_idle: 0.45,
};
const shared = { ...apart, on_same_ranks: true, are_equal: true, attention_idle: 0.24, experts_idle: 0.24 };

test('each condition with what was measured, and whether it is met', () => {
  const [sides, transfers, batches] = conditions(apart);
  assert.deepEqual([sides.isMet, transfers.isMet, batches.isMet], [false, true, false]);
  assert.equal(sides.text, 'Attention takes Ta 1.0 ms, experts take Te 0.70 ms');
  assert.equal(transfers.text, 'Dispatch or combine takes Tc 0.40 ms, less than the longer side (1.0 ms)');
  assert.equal(batches.text, 'There are m = 2 micro-batches at a time; at least 3 keep the slowest part busy');
});

test('attention and experts on the same ranks have no sides', () => {
  const [sides, transfers, batches] = conditions({ ...shared, least: null, is_transfer_hidden: false });
  assert.match(sides.text, /run on the same ranks/);
  assert.match(transfers.text, /not less than computing a micro-batch \(Ta \+ Te 1\.7 ms\)/);
  assert.match(batches.text, /which no number of micro-batches hides$/);
  assert.match(conditions({ ...shared, micro_batches: 1, least: 2 })[2].text, /do not take turns \(m = 1\).*at least 2 the ranks/);
  assert.match(conditions({ ...shared, micro_batches: 4, are_enough: true })[2].text, /^There are m = 4 micro-batches at a time, and 3 would do$/);
});

test('how much is idle', () => {
  assert.equal(idleText(apart), 'By these times 2 micro-batches through 32 layers take 81.0 ms forward, of which attention is idle 21 % and the experts 45 %.');
  assert.equal(idleText({ ...shared, micro_batches: 1, layers: 1 }), 'By these times 1 micro-batch through 1 layer takes 81.0 ms forward, of which the ranks wait for all-to-alls 24 %.');
});

test('what balance would save', () => {
  const measured = 'Measured: the rank that computes experts longest takes 1.9 ms of a step longer than the mean of its stage.';
  assert.equal(savingText({ ms: 2.3, longer_ms: 1.9, step_ms: 46 }), `With equally many tokens on every EP rank a step would be about 2.3 ms shorter, 5.0 % of its 46.0 ms. ${measured}`);
  assert.equal(savingText({ ms: 2.3, longer_ms: 1.9, step_ms: null }), `With equally many tokens on every EP rank a step would be about 2.3 ms shorter. ${measured}`);
  assert.match(savingText(null), /^Unknown/);
});
