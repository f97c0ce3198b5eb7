import assert from 'node:assert/strict';
import test from 'node:test';

import { standingsOf } from '../../../assets/lib/standings.mjs';

test('what waits, where it stands, and its last error', () => {
  const ranks = [{ rank: 2, in: '', frame: 'prepare train.py:12' }, { rank: 0, in: 'all_reduce 31', frame: 'unknown' }];
  const lines = [
    { ranks: [0, 1], level: 'error', text: 'Traceback (most recent call last):\nKeyError: 3\n' },
    { ranks: [2], level: 'info', text: 'step 3' },
  ];
  const found = standingsOf({ state: 'stuck', ranks, lines });
  assert.deepEqual(found.get(2), ['main thread in prepare train.py:12']);
  assert.deepEqual(found.get(0), ['waits in all_reduce 31', 'wrote KeyError: 3']);
  assert.deepEqual(found.get(1), ['wrote KeyError: 3']);
});

test('ranks that went on say nothing', () => {
  assert.equal(standingsOf({ state: 'moved', ranks: [{ rank: 0, in: 'barrier', frame: 'x' }], lines: [] }).size, 0);
});
