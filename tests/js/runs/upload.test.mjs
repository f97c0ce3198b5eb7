import assert from 'node:assert/strict';
import test from 'node:test';
import { fingerprint, ofDrop, ofInput, refusal, title } from '../../../assets/runs/chosen_files.mjs';
import { RememberedUploads } from '../../../assets/runs/remembered_uploads.mjs';
import { stateMessages } from '../../../assets/runs/upload_panel.mjs';
import { UploadRate, progressText, remaining } from '../../../assets/runs/upload_rate.mjs';
import { isTemporary, waitMs } from '../../../assets/runs/upload_transfer.mjs';

const file = (name, size = 1, lastModified = 7) => ({ name, size, lastModified });
const chosen = (...names) => names.map((name) => ({ name, file: file(name) }));
const names = (list) => list.map(({ name }) => name);

test('a choice is in one order, without hidden files', () => {
  const chosen = ofInput([file('b.json'), { ...file('x'), webkitRelativePath: 'job/.git/x' },
    { ...file('a.json'), webkitRelativePath: 'job/a.json' }, file('.DS_Store'), file('Thumbs.db')]);
  assert.deepEqual(names(chosen), ['b.json', 'job/a.json']);
});

/** What a browser gives for a dropped file or folder: readers hand out two entries at a time. */
function entry(path, children = null) {
  if (!children) return { isFile: true, fullPath: path, file: (done) => done(file(path.split('/').at(-1))) };
  const left = [...children];
  return { isFile: false, fullPath: path, createReader: () => ({ readEntries: (done) => done(left.splice(0, 2)) }) };
}

test('a dropped folder is walked to its end', async () => {
  const host = entry('/job/host', [1, 2, 3, 4, 5].map((i) => entry(`/job/host/${i}.json`)));
  const folder = entry('/job', [host, entry('/job/.cache', [entry('/job/.cache/x')]), entry('/job/0.json')]);
  const items = [folder, entry('/alone.json')].map((one) => ({ webkitGetAsEntry: () => one }));
  assert.deepEqual(names(await ofDrop({ items, files: [] })), ['alone.json', 'job/0.json',
    ...[1, 2, 3, 4, 5].map((i) => `job/host/${i}.json`)]);
});

test('what a folder that cannot be read says reaches the caller', async () => {
  const broken = { isFile: false, fullPath: '/job', createReader: () => ({ readEntries: (_, fail) => fail(new Error('gone')) }) };
  await assert.rejects(ofDrop({ items: [{ webkitGetAsEntry: () => broken }], files: [] }), /gone/);
});

test('titles and refusals', () => {
  assert.equal(title(chosen('a.json')), 'a.json');
  assert.equal(title(chosen('job/a', 'job/b')), 'job');
  assert.equal(title(chosen('a', 'b')), '2 files');
  assert.match(refusal([], 10), /no file/);
  assert.match(refusal([{ name: 'a', file: file('a', 0) }], 10), /empty/);
  assert.match(refusal([{ name: 'a', file: file('a', 2e6) }], 1e6), /2.00 MB, more than the limit of 1.00 MB/);
  assert.equal(refusal(chosen('a'), 10), null);
});

test('the same files have one fingerprint, changed ones another', () => {
  const of = (...files) => fingerprint(files.map((one) => ({ name: one.name, file: one })));
  assert.equal(of(file('a', 3)), of(file('a', 3)));
  const all = [of(file('a', 3)), of(file('a', 4)), of(file('b', 3)), of(file('a', 3, 8)), of(file('a', 3), file('b', 3))];
  assert.equal(new Set(all).size, all.length);
  assert.match(all[0], /^[0-9a-f]{16}$/);
});

function storage() {
  const kept = new Map();
  return { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };
}

test('uploads are remembered by their files until they are forgotten', () => {
  const disk = storage();
  const before = new RememberedUploads('/x', disk);
  for (let i = 0; i < 10; i++) before.add(`id${i}`, `print${i}`);
  const after = new RememberedUploads('/x', disk);
  assert.equal(after.all().length, 8);
  assert.equal(after.find('print9'), 'id9');
  after.forget('id9');
  assert.equal(before.find('print9'), null);
  assert.deepEqual(new RememberedUploads('/y', disk).all(), []);
});

test('without a storage nothing is remembered and nothing fails', () => {
  const forbidden = new RememberedUploads('', null);
  forbidden.add('a', 'b');
  assert.deepEqual(forbidden.all(), []);
  for (const text of ['{', '7', '[null, {}]']) {
    assert.deepEqual(new RememberedUploads('', { getItem: () => text }).all(), []);
  }
});

test('rate: over the last seconds, not over all', () => {
  const rate = new UploadRate();
  rate.add(0, 0);
  assert.equal(rate.rate(), null);
  rate.add(1e6, 1000);
  assert.equal(rate.rate(), 1e6);
  for (let s = 2; s <= 20; s++) rate.add(1e6 + (s - 1) * 1e5, s * 1000);
  assert.ok(Math.abs(rate.rate() - 1e5) < 1, `${rate.rate()}`);
  rate.add(5, 21_000);  // gone on further back
  assert.equal(rate.rate(), null);
});

test('progress reads as a sentence', () => {
  assert.equal(progressText(120e6, 300e6, 36e6), '120 MB of 300 MB, 36.0 MB/s, a few seconds left');
  assert.equal(progressText(300e6, 300e6, 36e6), '300 MB of 300 MB');
  assert.equal(progressText(0, 0, null), '');
  assert.deepEqual([3, 12, 89, 100, 6000].map(remaining),
    ['a few seconds left', 'about 15 s left', 'about 90 s left', 'about 2 min left', 'about 2 h left']);
});

test('what isTemporary by itself is tried again, later and later', () => {
  assert.deepEqual([0, 409, 423, 503].map(isTemporary), [true, true, true, true]);
  assert.deepEqual([400, 401, 403, 404, 413, 507].map(isTemporary), [false, false, false, false, false, false]);
  assert.deepEqual([1, 2, 6, 50].map(waitMs), [500, 1000, 15_000, 15_000]);
});

test('every phase has its messages', () => {
  const state = { title: 'job', done: 1e6, total: 3e6, rate: null, from: 5e5, text: 'Oh.', waitMs: 1500, keepHours: 24 };
  const message = (phase) => stateMessages({ ...state, phase }).join(' | ');
  assert.equal(message('sending'), 'Sending job | 1.00 MB of 3.00 MB; 500 kB were already here');
  assert.match(message('broken'), /^Oh. Continuing job in 2 s./);
  assert.match(message('partly'), /1.00 MB of 3.00 MB of job received .* same files .* 24 h/);
  assert.match(stateMessages({ ...state, phase: 'partly', keepHours: 0.5 })[1], /30 min/);
  assert.match(message('reading'), /Reading job .* you can close this page/);
  assert.match(stateMessages({ ...state, phase: 'reading', file: 'job/a.json' })[0], /^Reading job: job\/a.json$/);
  assert.match(message('failed'), /^Oh\./);
  assert.match(message('cancelled'), /^Cancelling job/);
  const over = { ...state, phase: 'cancelled', isOver: true };
  assert.match(stateMessages({ ...over, removed: true })[0], /the server kept nothing of it/);
  assert.match(stateMessages({ ...over, removed: false })[0], /could not be reached/);
});
