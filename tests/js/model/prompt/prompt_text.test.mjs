import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  attentionOf, firstLayers, attentionLayers, percent, promptOf, sharesOf, stateText, tokenShown, answerOf,
  whyNotPromptable,
} from '../../../../assets/model/prompt/prompt_text.mjs';

const FORM = { text: '5 7', tokens: '16', temperature: '0', layers: '0, 3-5' };
const token = (sample, labels, values, more = {}) => ({
  what: 'prompt_token', watch: 'prompt.p1', sample, labels: labels.map((one) => (Array.isArray(one) ? { id: one[0], text: one[1] } : { id: null, text: one })), values: Float32Array.from(values), ts_ns: 10 + sample, step: 7, ...more });
const FRAMES = [
  token(-1, [[5, '5'], [7, ' a']], [1, 1]),
  token(1, [[9, 'x'], [9, 'x'], [8, 'y']], [0.5, 0.5, 0.25]),
  token(0, [[8, 'y'], [9, 'x'], [8, 'y']], [0.25, 0.5, 0.25]),
  token(0, [[3, 'old']], [1], { watch: 'prompt.p0', ts_ns: 1 }),
];
const attention = (row_begin, layer, values) => ({ what: 'prompt_attention', watch: 'prompt.p1', sample: 0, layer, row_begin, rows: 1, columns: 2, values: Float32Array.from(values), ts_ns: 3 });

test('a prompt is asked for as the server takes it, and refused with a sentence', () => {
  assert.deepEqual(promptOf(FORM), { text: '5 7', tokens: 16, temperature: 0, layers: [0, 3, 4, 5] });
  assert.deepEqual(promptOf({ ...FORM, layers: '' }).layers, []);
  for (const [more, words] of [
    [{ text: ' ' }, /empty/], [{ tokens: '65' }, /give 1 to 64/], [{ tokens: '1e1' }, /1e1/], [{ temperature: '' }, /empty/],
    [{ temperature: '-1' }, /give 0 to 5/], [{ temperature: 'NaN' }, /NaN/], [{ layers: 'all' }, /list numbers/], [{ layers: '0-999999' }, /more than 16/],
  ]) assert.throws(() => promptOf({ ...FORM, ...more }), words);
  assert.deepEqual([firstLayers([0, 1, 2]), firstLayers([4]), firstLayers([])], ['0, 2', '4', '']);
});

test('frames in any order tell the newest prompt', () => {
  const answer = answerOf(FRAMES);
  assert.deepEqual([answer.id, answer.step, answer.end, answer.prompt.map(({ text }) => text)], ['p1', 7, null, ['5', ' a']]);
  assert.deepEqual(answer.tokens.map(({ number, id, share }) => [number, id, share]), [[0, 8, 0.25], [1, 9, 0.5]]);
  assert.deepEqual(answer.tokens[0].top.map(({ id }) => id), [9, 8]);
  const ended = answerOf([...FRAMES, token(-2, ['too long'], [2, 1234.4], { ts_ns: 99 })]);
  assert.deepEqual(ended.end.problem, 'too long');
  assert.match(stateText(null, ended, 9), /After step 7 it ended early: too long\. After 2 tokens; training waited 1,234 ms/);
  assert.equal(answerOf(FRAMES, 'p0').tokens[0].text, 'old');
  assert.equal(answerOf([]), null);
});

test('the state of a prompt in one sentence', () => {
  assert.match(stateText({ id: 'p9', step: 12 }, answerOf(FRAMES), 9), /runs after step 12, on all ranks at once; the job is in step 9/);
  assert.match(stateText({ id: 'p9', step: null }, null, 9), /no rank runs it/);
  assert.match(stateText(null, answerOf(FRAMES), 9), /2 tokens so far/);
  assert.equal(stateText(null, null, null), '');
  assert.match(whyNotPromptable({ connected: 2, may_ask: false }), /role operator/);
  assert.match(whyNotPromptable({ connected: 0, may_ask: true }), /tracer\.prompts/);
  assert.equal(whyNotPromptable({ connected: 2, may_ask: true }), null);
});

test('attention of all ranks stands together, by head', () => {
  const frames = [attention(1, 0, [0, 1]), attention(0, 0, [1, 0]), attention(0, 3, [1, 0])];
  assert.deepEqual(attentionLayers(frames, 'p1'), [0, 3]);
  const ofLayer = attentionOf(frames, 'p1', 0, 0);
  assert.deepEqual([ofLayer.heads, [...ofLayer.values]], [[0, 1], [1, 0, 0, 1]]);
  assert.deepEqual([...sharesOf(ofLayer)], [0.5, 0.5]);
  assert.deepEqual([...sharesOf(ofLayer, 1)], [0, 1]);
  assert.equal(attentionOf(frames, 'p1', 1, 0), null);
});

test('tokens and shares are readable', () => {
  assert.deepEqual([' a', '\n', ''].map(tokenShown), ['·a', '↵', '∅']);
  assert.deepEqual([1, 0.5, 0.0534, 0.004, 0.0001].map(percent), ['100%', '50%', '5.3%', '0.40%', '<0.1%']);
});
