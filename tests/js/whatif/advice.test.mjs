import assert from 'node:assert/strict';
import { test } from 'node:test';
import { adviceRows, isInFile } from '../../../assets/whatif/advice.mjs';

const one = (change, saves, more = {}) => ({ change, saves, error: 0.05, step_s: 1 - saves, is_certain: saves > 0.05, needs: [], pipeline: {}, ...more });

test('changes that may save something, the most first', () => {
  const { rows, text, nothing } = adviceRows({ own: '1f1b', step_s: 1, rest_s: 0.1, advice: [one('a', 0.2), one('b', 0.1), one('c', -0.01), one('d', -0.3)] });
  assert.deepEqual(rows.map(({ change, share }) => [change, share]), [['a', 1], ['b', 0.5], ['c', 0]]);
  assert.match(text, /which runs 1f1b/);
  assert.equal(nothing, '');
});

test('where nothing is certain, a sentence says so', () => {
  const { nothing } = adviceRows({ own: 'gpipe', step_s: 1, rest_s: 0.1, advice: [one('a', 0.02)] });
  assert.match(nothing, /No change saves more/);
});

test('a shared file shows other schedules of its own link, and no other size', () => {
  assert.equal(isInFile({ schedule: 'zbv' }, { schedule: '1f1b', chunks: '' }), true);
  assert.equal(isInFile({ schedule: '1f1b', microbatches: '16' }, {}), false);
  assert.equal(isInFile({ schedule: 'zbv' }, { microbatches: '16' }), false);
});
