import assert from 'node:assert/strict';
import { test } from 'node:test';
import { followRun } from '../../../../assets/lib/page/follow_run.mjs';

/** An app, and a promise of the next thing that a part shows. */
function following(load) {
  const app = Object.assign(new EventTarget(), { view: { attempt: 0 } });
  let tell;
  const shown = () => new Promise((resolve) => { tell = resolve; });
  const first = shown();
  const follower = followRun(app, {
    load: (signal) => load(app.view.attempt, signal),
    show: (found) => tell(found), showError: (message) => tell(`error: ${message}`), newsMs: 1,
  });
  return { app, follower, first, shown };
}

test('a part is loaded once the page has opened, again with news, and for another attempt', async () => {
  const attempts = [];
  const { app, follower, first, shown } = following(async (attempt) => attempts.push(attempt));
  assert.deepEqual(attempts, []);
  await first;
  const again = shown();
  app.dispatchEvent(new Event('run'));
  await again;
  app.dispatchEvent(new Event('view'));  // of the same attempt: nothing to load
  const other = shown();
  app.view = { attempt: 1 };
  app.dispatchEvent(new Event('view'));
  await other;
  assert.deepEqual(attempts, [0, 0, 1]);
  follower.destroy();
});

test('why a part cannot be shown is said', async () => {
  const { follower, first } = following(async () => { throw new Error('no such run'); });
  assert.equal(await first, 'error: no such run');
  follower.destroy();
});

test('a part that has left the page loads nothing', async () => {
  let loads = 0;
  const { app, follower, first } = following(async () => { loads += 1; });
  await first;
  follower.destroy();
  app.view = { attempt: 1 };
  app.dispatchEvent(new Event('view'));
  app.dispatchEvent(new Event('run'));
  await Promise.resolve();
  assert.equal(loads, 1);
});
