import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changesOf, fileText, memoryText, scheduleRows } from '../../../assets/whatif/schedules.mjs';

const one = (name, span, more = {}) => ({
  name, span_s: span, expected_s: span, low_s: span, high_s: span, bubble: 0.2, expected_bubble: 0.25, num_devices: 4, in_flight: [4, 3], assumptions: ['All alike.'], reason: '', ...more,
});

test('schedules by the time of all devices, compared with 1F1B', () => {
  const { rows, notes, impossible } = scheduleRows({ schedules: [
    one('1f1b', 2), one('zbv', 1.5, { assumptions: ['All alike.', 'Halves.'] }), one('fbd', 1.4, { num_devices: 8 }),
    { ...one('dualpipe-v', null), span_s: null, reason: '4 are fewer than 8' },
  ] });
  assert.deepEqual(rows.map((row) => [row.name, row.than, row.bubble, row.held, row.devices]), [
    ['zbv', '0.75 x', '25.0 %', '4', '4'], ['1f1b', '1.00 x', '25.0 %', '4', '4'], ['fbd', '0.70 x', '25.0 %', '4', '8'],
  ]);
  assert.deepEqual(notes, ['All alike.', 'Halves. (zbv)']);
  assert.deepEqual(impossible, ['dualpipe-v: 4 are fewer than 8.']);
});

test('a shared file says of which job its predictions are, and that there are more', () => {
  assert.match(fileText({}), /^This file holds predictions for the job as it ran; the live page also predicts other/);
  assert.match(fileText({ microbatches: '16', held: '4', split: 'equal', stragglers: 'no', schedule: 'zbv' }),
    /for the job with 16 micro-batches, at most 4 micro-batches held, equal stages, no stragglers; /);
  assert.match(fileText({ microbatches: '1', chunks: '1', held: '1' }), /with 1 micro-batch, 1 chunk of a stage, at most 1 micro-batch held; /);
  assert.match(fileText({ forward_speed: '0.5', handover_ms: '2' }), /with forwards of fbd on devices 0.5 times as fast, 2 ms to hand over activations; /);
});

test('changes of a link are the parameters of a request', () => {
  const pipeline = { microbatches: '16', forward_speed: '0.5', handover_ms: '2', schedule: 'fbd' };
  assert.deepEqual(JSON.parse(JSON.stringify(changesOf(pipeline))), { microbatches: '16', forward_speed: '0.5', handover_ms: '2' });
});

test('memory of the fullest device, of activations and in all', () => {
  assert.equal(memoryText({ memory_bytes: 5.6e9, peak_bytes: [20e9, 21.34e9] }), '5.60 GB, 21.3 GB in all');
  assert.equal(memoryText({ memory_bytes: 12.3e6, peak_bytes: null }), '12.3 MB');
  assert.equal(memoryText({ memory_bytes: null, peak_bytes: null }), '');
});
