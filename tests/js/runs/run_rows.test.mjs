import assert from 'node:assert/strict';
import test from 'node:test';
import { stateText } from '../../../assets/lib/sentences.mjs';
import { age, count, duration, filtered, findings, ranks, size, steps, summary } from '../../../assets/runs/run_rows.mjs';

const row = (given) => ({
  name: 'a', state: 'finished', ended: null, layout: 'pp 2', num_ranks: 8, world_size: 8,
  first_step: 0, last_step: 9, problem: null, num_findings: null, num_past: null, first_finding: '', ...given,
});

test('times read in the unit that fits', () => {
  assert.deepEqual([0.0123, 1.5, 312.4, 2294.3, 90_000].map(duration), ['12.3 µs', '1.50 ms', '312 ms', '2.29 s', '1.50 min']);
  assert.deepEqual([0.4, 59, 61, 7300, 200_000].map(age), ['0 s', '59 s', '1 min', '2 h', '2 d']);
  assert.equal(duration(null), age(undefined));
});

test('sizes and counts', () => {
  assert.deepEqual([12, 301_482, 4.2e9].map(size), ['12 B', '301 kB', '4.20 GB']);
  assert.equal(count(12288), '12,288');
  assert.equal(ranks(row({ num_ranks: 7 })), '7 / 8');
  assert.equal(ranks(row({ world_size: null })), '8');
  assert.equal(steps(row({})), '0 \u2013 9');
  assert.equal(steps(row({ last_step: null })), '\u2013');
});

test('every word of the filter must be somewhere in the row', () => {
  const rows = [row({ name: 'llama-7b', state: 'running' }), row({ name: 'mixtral', ended: 'rank 3 failed: OOM' })];
  assert.deepEqual(filtered(rows, 'LLAMA run').map((r) => r.name), ['llama-7b']);
  assert.deepEqual(filtered(rows, 'oom').map((r) => r.name), ['mixtral']);
  assert.equal(filtered(rows, '  ').length, 2);
  const over = row({ name: 'gpt', state: 'finished', ended: null });
  assert.equal(stateText(over.state), 'ended');
  assert.deepEqual(filtered([rows[0], over], 'ended').map((r) => r.name), ['gpt']);
  assert.equal(summary(rows, rows), '2 runs, 1 running');
  assert.equal(summary(rows, rows.slice(1)), '1 of 2 runs, 1 running');
});

test('findings: the first by name, none, past, not judged', () => {
  const findingsText = (given) => findings(row(given)).text;
  assert.equal(findingsText({ num_findings: 2, num_past: 0, first_finding: 'Rank 5 is slow.' }), 'Rank 5 is slow');
  assert.equal(findings(row({ num_findings: 1, first_finding: 'Rank 5 is slow', is_urgent: true })).tone, 'fault');
  assert.equal(findings(row({ num_findings: 1, first_finding: 'Rank 5 is slow', is_urgent: false })).tone, 'warn');
  assert.equal(findingsText({ num_findings: 0, num_past: 3 }), '3 past');
  assert.equal(findingsText({ num_findings: 0, num_past: 0 }), 'none');
  assert.equal(findingsText({ num_findings: 0, num_past: 0, num_noted: 1 }), '1 noted');
  assert.equal(findingsText({ num_findings: 0, num_past: 2, num_noted: 1 }), '2 past, 1 noted');
  assert.equal(findingsText({ num_findings: 0, num_past: 0, is_partial: true }), 'none, with a warning');
  assert.equal(findingsText({}), 'not judged yet');
  assert.equal(findingsText({ was_judged: true }), 'not judged');
});
