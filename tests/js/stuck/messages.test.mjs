import assert from 'node:assert/strict';
import test from 'node:test';

import {
  ago, cellText, detailsOf, frameParts, groupClass, headlineOf, letter, whenText,
} from '../../../assets/stuck/messages.mjs';

const NOW = 1_800_000_000;
const STUCK = {
  state: 'stuck', status: 'Rank 1 waits for rank 0 in barrier 3 of group 0 for 9 s.', findings: [], reasons: ['Rank 0: it compiles.'],
  at_s: NOW - 4, since_s: NOW - 13, heard_s: NOW - 1, run_state: 'running', checked: 'Ranks reported.', checks: [],
};

test('the sentence on top says who waits, else that nothing is stuck, else leaves it to the findings', () => {
  assert.equal(headlineOf(STUCK), STUCK.status);
  assert.equal(headlineOf({ ...STUCK, status: '' }), 'Ranks wait.');
  assert.equal(headlineOf({ ...STUCK, state: 'none' }), 'Nothing is stuck.');
  assert.equal(headlineOf({ ...STUCK, state: 'none', findings: [{}] }), null);
});

test('what a slow rank does is shown as long as no finding says it; what was checked where nothing is stuck', () => {
  assert.deepEqual(detailsOf(STUCK), STUCK.reasons);
  assert.deepEqual(detailsOf({ ...STUCK, findings: [{}] }), []);
  assert.deepEqual(detailsOf({ ...STUCK, state: 'none', checks: ['No error.'] }), ['Ranks reported.', 'No error.']);
});

test('when it began and was looked at', () => {
  assert.match(whenText(STUCK, NOW), /^Since \d\d:\d\d:\d\d\. Last look: \d\d:\d\d:\d\d, 4 s ago\.$/);
  assert.match(whenText({ ...STUCK, run_state: 'lost' }, NOW), /^Nothing arrives from the job any more/);
  assert.match(whenText({ ...STUCK, state: 'none' }, NOW), /^Last heartbeat: .* 1 s ago\.$/);
  assert.equal(whenText({ ...STUCK, state: 'none', heard_s: null }, NOW), '');
  assert.equal(whenText({ ...STUCK, at_s: null }, NOW), 'Ranks reported.');
  assert.doesNotMatch(whenText(STUCK, NOW, false), / ago/);
});

test('ages, letters, cells, frames and colours of groups', () => {
  assert.deepEqual([-1, 40, 200, 9000, 500000].map(ago), ['0 s', '40 s', '3 min', '3 h', '6 days']);
  assert.equal(letter(2), 'C');
  assert.equal(cellText({ rank: 5, num_ranks: 1 }), 'rank 5');
  assert.equal(cellText({ rank: 8, num_ranks: 8 }), '8 ranks from 8 on');
  assert.deepEqual(frameParts('step my job/train.py:4'), ['step', 'my job/train.py:4']);
  assert.deepEqual([0, 1, null].map((index) => groupClass(index, 2)), ['stack-0', 'stack-most', 'stack-none']);
});
