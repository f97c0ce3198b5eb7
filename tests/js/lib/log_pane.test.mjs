import assert from 'node:assert/strict';
import test from 'node:test';

import { countText, lastTold } from '../../../assets/lib/log_pane.mjs';

test('how many lines are shown', () => {
  assert.equal(countText(1, 1, null), '1 line');
  assert.equal(countText(12000, 300, null), 'the newest of 12,000 lines');
  assert.equal(countText(7, 4, [4, 9]), '7 lines in steps 4 to 9');
  assert.equal(countText(0, 0, [4, 4]), 'No line in step 4 matches.');
  assert.equal(countText(0, 0, null, true), 'No lines were recorded.');
});

test('the last line of a box says something', () => {
  assert.equal(lastTold(['=====', 'rank : 3', '=====']), 'rank : 3');
  assert.equal(lastTold(['====']), '====');
});
