import assert from 'node:assert/strict';
import { test } from 'node:test';
import { doing, longestOf, megabytes, milliseconds, percent, sampleSize, saved, shownOf, standsOut } from '../../../assets/data/text.mjs';

test('numbers as text', () => {
  assert.deepEqual([80.34, 1, 0.0312].map(milliseconds), ['80.3 ms', '1.0 ms', '0.031 ms']);
  assert.deepEqual([0, 0.021, 0.34, 1].map(percent), ['0 %', '2.1 %', '34 %', '100 %']);
  assert.equal(megabytes(1240.4), '1,240 MB');
  assert.deepEqual([null, 0.0312, 1.44, 123.4].map(sampleSize), ['unknown', '0.031 MB', '1.4 MB', '123 MB']);
});

test('what a worker does', () => {
  const row = { cpu_ratio: 0.9, transform_ratio: 0.2, transform: 'tokenize' };
  assert.equal(doing(row), 'computes 90 %');
  assert.equal(doing({ ...row, transform_ratio: 0.7 }), 'transform tokenize 70 %');
  assert.equal(doing({ ...row, cpu_ratio: 0.1 }), 'waits 90 %');
  assert.equal(doing({ ...row, cpu_ratio: 1.02 }), 'computes 100 %');
  assert.equal(doing({ ...row, transform: '', transform_ratio: 0.7 }), 'computes 90 %');
});

test('a worker stands out that is slower than usual and not only by microseconds', () => {
  assert.ok(standsOut({ slower: 3, sample_ms: 80 }));
  assert.ok(!standsOut({ slower: 1.2, sample_ms: 80 }));
  assert.ok(!standsOut({ slower: 3, sample_ms: 0.1 }));
});

test('how many of all are shown', () => {
  assert.equal(shownOf(128, 4096, 'rows'), 'the first 128 of 4,096 rows');
  assert.equal(shownOf(5, 5, 'rows'), '');
  assert.equal(longestOf(32, 12_288), 'the 32 of 12,288 ranks that wait longest');
  assert.equal(longestOf(8, 8), '');
});

test('what dealing again saves', () => {
  assert.equal(saved({ at_step: 0.21, at_microbatch: -0.001, in_pipeline: null }),
    'Saved where replicas wait for each other at the end of a step: 21 %; after each micro-batch: 0 %.');
  assert.equal(saved({ at_step: null, at_microbatch: null, in_pipeline: null }), '');
});
