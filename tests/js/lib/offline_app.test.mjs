import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OfflineApp } from '../../../assets/lib/offline_app.mjs';

const app = new OfflineApp({ page: 'what-if', rank: null, ranks: [], steps: [1, 2], pipeline: { chunks: '4' }, answers: {
  'what-if': { S: 1.2 }, 'what-if/schedule?name=zbv': { step: 3 }, 'what-if/schedules': { refused: 'The job has 2 stages.' } } });

test('a file answers what it was made with, whatever the attempt and the steps', async () => {
  assert.deepEqual(await app.json(app.api('what-if', { attempt: 1, steps: '1..2' })), { S: 1.2 });
  assert.deepEqual(await app.json(app.api('what-if/schedule', { name: 'zbv', held: '' })), { step: 3 });
  assert.equal(app.has(app.api('what-if/schedule', { name: '1f1b' })), false);
  assert.equal(app.computes, false);
});

test('what the server refused when the file was made is refused with the same sentence', async () => {
  await assert.rejects(app.json('what-if/schedules'), /The job has 2 stages/);
  await assert.rejects(app.json('mfu'), /contains only what it shows/);
});

test('its view is the page and the changes of the link', () => {
  assert.equal(app.view.page, 'what-if');
  assert.deepEqual(app.view.pipeline, { chunks: '4' });
});

test('what leads to another page shows the rank in the timeline of the file, or a sentence', () => {
  const file = new OfflineApp({ rank: 1, ranks: [1, 4], steps: null });
  const said = [];
  file.addEventListener('open', ({ detail }) => said.push(detail));
  file.open({ page: 'timeline', rank: 4, ranks: [] });
  assert.deepEqual([file.view.rank, file.view.ranks, said], [4, [1, 4], ['']]);
  file.open({ page: 'timeline', steps: [3, 3] });
  file.open({ page: 'timeline', rank: 7 });
  assert.equal(file.view.rank, 4);
  assert.deepEqual(said.slice(1), Array(2).fill('This file does not show that; the live page does.'));
});
