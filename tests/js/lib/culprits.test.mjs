import assert from 'node:assert/strict';
import { test } from 'node:test';

import { culpritsOf, loadCulprits, NO_ROLES, rolesIn, rolesShown } from '../../../assets/lib/culprits.mjs';

test('the finding of the view names culprits, else the first urgent one', () => {
  const findings = [
    { id: 'a', culprit_ranks: [1], victim_ranks: [2], first_step: 4, last_step: 9 },
    { id: 'b', urgent: true, culprit_ranks: [3], first_step: 6, last_step: 9, ongoing: true },
  ];
  assert.deepEqual(culpritsOf(findings, 'a'), { culprits: [1], victims: [2], steps: [4, 9] });
  assert.deepEqual(culpritsOf(findings, null), { culprits: [3], victims: [], steps: [6, Infinity] });
  assert.equal(culpritsOf([], null), null);
});

test('a finding whose first step has moved is the same finding', () => {
  const findings = [
    { id: 'slow_worker-0-5-4', severity: 'urgent', culprit_ranks: [5] },
    { id: 'slow_worker-0-3-40', severity: 'past', culprit_ranks: [3] },
    { id: 'slow_worker-0-3-9', severity: 'past', culprit_ranks: [3], victim_ranks: [1] },
  ];
  const culprits = (id) => culpritsOf(findings, id).culprits;
  assert.deepEqual(culprits('slow_worker-0-3-7'), [3]);
  assert.deepEqual(culpritsOf(findings, 'slow_worker-0-3-7').victims, [1]);
  assert.deepEqual(culpritsOf(findings, 'slow_worker-0-3-40').victims, []);
  for (const gone of ['slow_worker-0-2-4', 'slow_worker-1-3-7', 'slow_link-0-3-7', 'nonsense']) {
    assert.deepEqual(culprits(gone), [5]);
  }
});

test('nobody is judged before a finding begins, or after it is over', () => {
  const past = { culprits: [1], victims: [2], steps: [4, 9] };
  assert.equal(rolesIn(past, [0, 3]), NO_ROLES);
  assert.equal(rolesIn(past, [10, 29]), NO_ROLES);
  for (const steps of [[0, 4], [9, 9], [5, 6], [0, 29], null]) assert.equal(rolesIn(past, steps), past, `${steps}`);
  assert.equal(rolesIn({ ...past, steps: [4, Infinity] }, [90, 99]).culprits[0], 1);
  assert.deepEqual(rolesIn(NO_ROLES, [0, 3]).culprits, []);
});

test('the newest steps hold the step under way, chosen ones do not', () => {
  const stopped = { culprits: [5], victims: [], steps: [25, Infinity] };
  assert.equal(rolesShown(stopped, { steps: null }, [5, 24]), stopped);
  assert.equal(rolesShown(stopped, { steps: [5, 24] }, [5, 24]), NO_ROLES);
  assert.equal(rolesShown(stopped, { steps: null }, null), stopped);
});

test('a shared file brings its roles, and a failed request marks nobody', async () => {
  const roles = { culprits: [7], victims: [], steps: [1, 2] };
  assert.equal(await loadCulprits({ roles }), roles);
  const app = { view: { attempt: null, finding: null }, api: () => '', json: async () => { throw new Error('gone'); } };
  assert.equal(await loadCulprits(app), NO_ROLES);
});
