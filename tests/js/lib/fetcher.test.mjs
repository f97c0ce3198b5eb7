import assert from 'node:assert/strict';
import { test } from 'node:test';

import { makeFetcher } from '../../../assets/lib/fetcher.mjs';

const wait = (ms) => new Promise((done) => { setTimeout(done, ms); });

/** A server that takes `ms` to answer; counts what was asked, answered and abandoned. */
function slowServer(ms) {
  const counts = { asked: 0, answered: 0, abandoned: 0 };
  const fetch = async (signal) => {
    counts.asked += 1;
    await wait(ms);
    counts[signal.aborted ? 'abandoned' : 'answered'] += 1;
  };
  return { counts, fetch };
}

test('news that arrive faster than answers abort none, and the last news is requested', async () => {
  const { counts, fetch } = slowServer(40);
  const fetcher = makeFetcher(fetch, 5);
  for (let i = 0; i < 20; i++) {
    fetcher.news();
    await wait(6);
  }
  const before = counts.asked;
  assert.equal(counts.abandoned, 0);
  assert.ok(before >= 2 && before <= 5, `${before}`);
  await wait(120);
  assert.equal(counts.answered, counts.asked);
  fetcher.stop();
});

test('a new question abandons the one under way', async () => {
  const { counts, fetch } = slowServer(20);
  const fetcher = makeFetcher(fetch, 5);
  fetcher.now();
  await wait(5);
  await fetcher.now();
  assert.deepEqual(counts, { asked: 2, answered: 1, abandoned: 1 });
});

test('news are asked for at most so often', async () => {
  const { counts, fetch } = slowServer(0);
  const fetcher = makeFetcher(fetch, 50);
  for (let i = 0; i < 12; i++) {
    fetcher.news();
    await wait(10);
  }
  await wait(60);
  fetcher.stop();
  assert.ok(counts.asked >= 2 && counts.asked <= 5, `${counts.asked}`);
});

test('what changes many times in a row is asked for once, after the last change', async () => {
  const { counts, fetch } = slowServer(0);
  const fetcher = makeFetcher(fetch, 5);
  for (let i = 0; i < 5; i++) {
    fetcher.soon();
    await wait(10);
  }
  assert.equal(counts.asked, 0);
  await wait(120);
  assert.equal(counts.asked, 1);
  fetcher.soon();
  fetcher.stop();
  await wait(120);
  assert.equal(counts.asked, 1);
});
