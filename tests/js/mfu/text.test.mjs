import assert from 'node:assert/strict';
import { test } from 'node:test';
import { milliseconds, percent } from '../../../assets/lib/value_text.mjs';
import { aboutText, operationsText, operationsTitle, rankLabel, rankText, signed, unitText } from '../../../assets/mfu/text.mjs';

test('numbers as text', () => {
  assert.deepEqual([0.341, 0.0004, 3e-9, 0, 1].map(percent), ['34.1 %', '0.04 %', '< 0.01 %', '0.0 %', '100.0 %']);
  assert.deepEqual([80.34, 1981.3, 0.0312, 3e-6, 12400, 0].map(milliseconds), ['80.3 ms', '1,981 ms', '0.031 ms', '< 0.01 ms', '12.4 s', '0.0 ms']);
  assert.deepEqual([1.94, -0.3, 0].map(signed), ['+1.9', '\u22120.30', '+0.00']);
});

test('what the waterfall is about', () => {
  const fall = { first_step: 3, last_step: 13, step_ms: 1981.3, num_ranks: 8 };
  assert.equal(aboutText(fall, 'the newest 11'), 'steps 3 to 13, the newest 11: 1,981 ms per step, 8 ranks');
  assert.equal(aboutText({ ...fall, num_ranks: 1 }, 'chosen'), 'steps 3 to 13: 1,981 ms per step, 1 rank');
});

test('a rank of the waiting is one that others wait for', () => {
  assert.deepEqual(['waiting', 'data'].map((name) => rankLabel(name, { rank: 5, ms: 12 })), ['for rank 5', 'rank 5']);
  assert.equal(rankText('waiting', { rank: 5, ms: 12 }), 'rank 5 makes others wait 12.0 ms per step, added up over them');
  assert.equal(rankText('data', { rank: 5, ms: 12 }), 'rank 5: 12.0 ms per step');
});

test('operations of a part', () => {
  const operations = [{ name: 'reduce_scatter', ms: 4 }, { name: 'all_gather', ms: 0.5 }];
  assert.equal(operationsText(operations), 'reduce_scatter, all_gather');
  assert.equal(operationsTitle(operations), 'reduce_scatter 4.0 ms, all_gather 0.50 ms per step, hidden time included');
});

test('the unit is points where MFU is known', () => {
  assert.equal(unitText({ mfu_before: 0.4 }), 'points of MFU');
  assert.equal(unitText({ mfu_before: null }), '% of a step before');
});
