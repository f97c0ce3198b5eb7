/** What the model gave the next token: rows of both frames by position, the true one marked. */
import assert from 'node:assert/strict';
import test from 'node:test';

import { subtractedStep, otherOf } from '../../../../assets/model/inspect/comparison.mjs';
import { meanLoss, namesOf, nextTokens } from '../../../../assets/model/next_tokens/tokens.mjs';
import { mergedVocabulary, whyIncomplete } from '../../../../assets/model/next_tokens/vocabulary.mjs';

const id = (number, text = null) => ({ id: number, text });
const probabilities = {
  rows: 2, columns: 2, row_begin: 0, row_every: 2, values: [0.75, 0.25, 0.5, 0.25], labels: [id(4), id(7), id(1, 'a'), id(2, 'b')],
};
const losses = { rows: 3, columns: 1, row_begin: 0, row_every: 2, values: [1.5, 3, NaN], labels: [id(7), id(9), id(null)] };

test('probabilities and losses meet at their token', () => {
  const [first, second, ...more] = nextTokens(probabilities, losses);
  assert.deepEqual([first.token, first.loss, first.truth], [0, 1.5, id(7)]);
  assert.deepEqual(first.top, [{ id: 4, text: null, share: 0.75, isTrue: false }, { id: 7, text: null, share: 0.25, isTrue: true }]);
  assert.deepEqual([second.token, second.truth, second.top.some(({ isTrue }) => isTrue)], [2, id(9), false]);
  assert.deepEqual(more, []);  // the last has no next token and no probabilities
  assert.equal(meanLoss([first, second]), 2.25);
});

test('either may be missing', () => {
  assert.deepEqual(nextTokens(probabilities, null).map(({ loss, truth }) => [loss, truth]), [[null, null], [null, null]]);
  assert.ok(nextTokens(probabilities, null).every(({ top }) => top.every(({ isTrue }) => !isTrue)));
  assert.deepEqual(nextTokens(null, losses).map(({ token, top }) => [token, top]), [[0, []], [2, []]]);
  assert.deepEqual(nextTokens(null, null), []);
  assert.equal(meanLoss([]), null);
});

test('frames are compared with a step of this run, or of another', () => {
  assert.equal(otherOf({ minus: '3' }, 'a'), null);
  assert.equal(otherOf({ minus_run: 'a', minus_attempt: 'x' }, 'a'), null);
  assert.deepEqual(otherOf({ minus_run: 'b' }, 'a'), { run: 'b', attempt: null });
  assert.deepEqual(otherOf({ minus_attempt: '2' }, 'a'), { run: 'a', attempt: 2 });
  assert.equal(subtractedStep(null, 30, undefined, [10, 20], 'a'), null);
  assert.equal(subtractedStep(null, 30, '11', [10, 20], 'a'), null);
  assert.deepEqual(subtractedStep(null, 30, '20', [10, 20], 'a'), { step: 20, where: 'step 20' });
  assert.deepEqual(subtractedStep({ run: 'b', attempt: null }, 30, undefined, [10], 'a'), { run: 'b', attempt: null, step: 30, where: 'step 30 of run b' });
  assert.equal(subtractedStep({ run: 'b', attempt: 1 }, 30, '10', [10], 'a').where, 'step 10 of run b, attempt 1');
  assert.equal(subtractedStep({ run: 'a', attempt: 1 }, 30, '10', [10], 'a').where, 'step 10 of attempt 1');
});

test('tokens have their text, or else their id', () => {
  assert.deepEqual(namesOf({ values: Float32Array.of(5, 9), labels: [] }), [5, 9]);
  assert.deepEqual(namesOf({ values: Float32Array.of(5, 9), labels: [id(5, 'the'), id(9)] }), ['the', 9]);
  assert.deepEqual(namesOf(null), []);
});

const NONE = { id: null, text: null };
const logSum = (logits) => Math.log(logits.reduce((sum, one) => sum + Math.exp(one), 0));

/** Two ranks of three and two tokens: the two greatest logits of each, its sum, the true token's. */
function vocabularyParts(true0 = 2, truth = id(1)) {
  const frame = { step: 4, rows: 1, row_begin: 6, row_every: 2, columns: 4, sample: 0, what: 'vocabulary_part' };
  return [
    { ...frame, shard: 'tp=0 of 2', values: [2, 1, logSum([1, 2, 0]), true0], labels: [id(1), id(0), NONE, truth] },
    { ...frame, shard: 'tp=1 of 2', values: [3, -1, logSum([3, -1]), NaN], labels: [id(3, 'c'), id(4), NONE, truth] },
  ];
}

test('parts of a vocabulary are one softmax', () => {
  const parts = vocabularyParts();
  assert.equal(whyIncomplete(parts), '');
  const { probabilities: shares, losses: ofTrue } = mergedVocabulary(parts);
  const sum = logSum([1, 2, 0, 3, -1]);
  assert.deepEqual(shares.labels, [id(3, 'c'), id(1)]);
  [3, 2].forEach((logit, at) => assert.ok(Math.abs(shares.values[at] - Math.exp(logit - sum)) < 1e-6));
  assert.ok(Math.abs(ofTrue.values[0] - (sum - 2)) < 1e-6);
  const [next] = nextTokens(shares, ofTrue);
  assert.deepEqual([next.token, next.truth, next.top.map(({ isTrue }) => isTrue)], [6, id(1), [false, true]]);
});

test('an unknown true token has no loss, and one whose logit is not known spoils them all', () => {
  const { losses: none } = mergedVocabulary(vocabularyParts(NaN, NONE));
  assert.deepEqual([[...none.values], none.labels], [[NaN], [null]]);
  assert.equal(mergedVocabulary(vocabularyParts(NaN)).losses, null);
});

test('parts that are missing or of different steps make no mergedVocabulary', () => {
  const [one, other] = vocabularyParts();
  assert.equal(whyIncomplete([]), 'no part of it was recorded');
  assert.equal(whyIncomplete([one]), 'of 2 parts 1 are here');
  assert.equal(whyIncomplete([one, one]), 'of 2 parts 1 are here');
  assert.match(whyIncomplete([one, { ...other, step: 5 }]), /not all of one step/);
  assert.match(whyIncomplete([one, { ...other, labels: [] }]), /not all of one step/);
});
