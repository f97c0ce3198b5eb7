import assert from 'node:assert/strict';
import { test } from 'node:test';

import { backoffMs, isOutdated, isRefreshDue, isNews, contentKey, socketUrl, Throttle } from '../../../assets/lib/live.mjs';

test('the socket is where the page is, below its prefix, and secure behind TLS', () => {
  assert.equal(socketUrl('http://localhost:9000/run/a/overview?x=1#y', '', 'a b/c'),
    'ws://localhost:9000/api/live?run=a+b%2Fc');
  assert.equal(socketUrl('https://hub.example.org/p/', '/p', null), 'wss://hub.example.org/p/api/live');
});

test('tries come seldomer, spread by a quarter, never seldomer than 4 s', () => {
  const waits = [0, 1, 2, 3, 4, 5, 50].map((tries) => backoffMs(tries));
  assert.deepEqual(waits, [...waits].sort((a, b) => a - b));
  assert.equal(waits.at(-1), waits.at(-2));
  assert.ok(backoffMs(0, 0) < backoffMs(0, 1));
  assert.ok(backoffMs(50, 1) <= 4000);
});

test('a page that says why it is empty is loaded again for another reason, once', () => {
  const shown = 'Starting: r is fetched from s3://b: 10 of 500 files; this page opens automatically';
  assert.equal(isOutdated(shown, 'r is fetched from s3://b: 10 of 500 fi', null), false);
  assert.equal(isOutdated(shown, 'r is fetched from s3://b: 20 of 500 fi', null), true);
  assert.equal(isOutdated(shown, 'r cannot be fetched', 'r cannot be fetched'), false);
  assert.equal(isOutdated(undefined, 'r cannot be fetched', null), false);  // it shows a run
});

test('news are another version; after a pause of the socket whatever comes', () => {
  const old = { version: 4, data_age_s: 900 };
  assert.equal(isNews(old, 4, true), false);
  assert.equal(isNews(old, 3, true), true);
  assert.equal(isNews({ version: 1, data_age_s: 900 }, 7, true), true);  // the server began again
  assert.equal(isNews(old, null, true), true);  // it may be another 4 than before
});

test('a page that has just been made knows what is old, not what has just come', () => {
  assert.equal(isNews({ version: 4, data_age_s: 900 }, null, false), false);
  assert.equal(isNews({ version: 4, data_age_s: 0.3 }, null, false), true);
  assert.equal(isNews({ version: 1, data_age_s: null }, null, false), false);
});

test('while ranks fall silent the numbers are asked for again, every 5 s', () => {
  assert.equal(isRefreshDue({ state: 'silent' }, 5000), true);
  assert.equal(isRefreshDue({ state: 'silent' }, 1000), false);
  for (const state of ['running', 'finished', 'lost']) assert.equal(isRefreshDue({ state }, 9e9), false);
});

test('the content key changes with finished steps, the state and the bar; without steps with each version', () => {
  const before = { version: 4, state: 'running', progress: 80, problem: null, bar: 'attempt 0' };
  assert.equal(contentKey({ ...before, version: 5, last_step: 11 }), contentKey(before));
  for (const other of [{ progress: 81 }, { state: 'silent' }, { bar: 'attempt 1' }, { problem: 'full' }]) {
    assert.notEqual(contentKey({ ...before, ...other }), contentKey(before));
  }
  assert.notEqual(contentKey({ run: null, version: 5 }), contentKey({ run: null, version: 4 }));
  assert.notEqual(contentKey({ ...before, progress: 0, version: 5 }), contentKey({ ...before, progress: 0 }));
});

test('a throttle passes the first at once, then the newest only', async () => {
  const passed = [];
  const throttle = new Throttle(60, (value) => passed.push(value));
  for (let value = 0; value < 10; value += 1) throttle.push(value);
  assert.deepEqual(passed, [0]);
  await new Promise((resolve) => { setTimeout(resolve, 100); });
  assert.deepEqual(passed, [0, 9]);
  await new Promise((resolve) => { setTimeout(resolve, 100); });
  throttle.push(10);
  assert.deepEqual(passed, [0, 9, 10]);
});

test('a cancelled throttle says nothing more of before', async () => {
  const passed = [];
  const throttle = new Throttle(30, (value) => passed.push(value));
  throttle.push(1);
  throttle.push(2);
  throttle.cancel();
  await new Promise((resolve) => { setTimeout(resolve, 60); });
  assert.deepEqual(passed, [1]);
});
