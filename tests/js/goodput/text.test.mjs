import assert from 'node:assert/strict';
import { test } from 'node:test';
import { caption, cells, headline, path, segments, ticks, xOf } from '../../../assets/goodput/text.mjs';

const ATTEMPT = { wall_s: 100, parts: { productive: 60, restart: 30, rewound: 0 }, unaccounted_s: 10, ended: 'killed', first_step: 3, last_step: 9, num_steps: 7 };

test('what share was training, or that it is unknown', () => {
  const found = { effective_share: 0.512, wall_s: 200, attempts: [1, 2], num_interruptions: 1 };
  assert.equal(headline(found), '51.2 % of 3.3 min was productive (effective training time ratio); 2 attempts, 1 interruption.');
  assert.match(headline({ ...found, effective_share: null, wall_s: null }), /^When the attempts started is unknown/);
});

test('parts of an attempt, without empty ones, and the rest', () => {
  const found = segments(ATTEMPT, ['productive', 'rewound', 'restart'], { productive: 'productive', restart: 'until the restart' }, 200);
  assert.deepEqual(found.map(({ part, share }) => [part, share]), [['productive', 0.3], ['restart', 0.15], ['unaccounted', 0.05]]);
  assert.equal(found[1].text, 'until the restart: 30.0 s, 30.0 %');
  assert.equal(found[2].text, 'in no part: 10.0 s, 10.0 %');
});

test('a row of the ledger', () => {
  assert.deepEqual(cells(ATTEMPT, ['productive']), ['killed', '3 to 9', '60.0 s', '100 s']);
  assert.equal(cells({ ...ATTEMPT, num_steps: 1, last_step: 3 }, [])[1], '3');
  assert.deepEqual(cells({ ...ATTEMPT, num_steps: 0, wall_s: null }, []), ['killed', 'none', 'unknown']);
});

test('the curve leaves out what is unknown', () => {
  const curve = [[1, 0.5, null], [10, 0.75, 0.5], [100, 0.25, null]];
  assert.equal(path(curve, 1, { width: 100, height: 100 }), 'M0.0 50.0L50.0 25.0L100.0 75.0');
  assert.equal(path(curve, 2, { width: 100, height: 100 }), 'M50.0 50.0');
  assert.equal(path([[1, null]], 1, { width: 1, height: 1 }), '');
  assert.equal(xOf(curve, 10, 100), 50);
  assert.deepEqual(ticks(curve), [1, 10, 60]);
});

test('what the lines are', () => {
  assert.match(caption({ mtbf_s: 3 }), /thick for the mean time between interruptions/);
  assert.match(caption({ mtbf_s: null }), /as often as they still may/);
});
