/** The frame of every page: keys, turning through findings, what the live chip says, defaults. */
import assert from 'node:assert/strict';
import test from 'node:test';

import { help, isTyping, Keys, findingAfter } from '../../../../assets/lib/page/keys.mjs';
import { age, linkPatch, liveText } from '../../../../assets/lib/page/page_controls.mjs';
import { otherTheme, toggleTheme } from '../../../../assets/lib/page/theme.mjs';
import { emptyView } from '../../../../assets/lib/view_state.mjs';
import { viewWithDefaults } from '../../../../assets/lib/with_defaults.mjs';

const PAGES = [
  { name: 'overview', title: 'Overview', key: 'o' }, { name: 'timeline', title: 'Timeline', key: 't' },
];

test('a link names the attempt and the finding that are seen', () => {
  const view = { ...emptyView(), run: 'a' };
  const seen = { attempt: '1', finding: 'slow_worker-1-5-9' };
  assert.deepEqual(linkPatch(view, seen), { attempt: 1, finding: 'slow_worker-1-5-9' });
  assert.deepEqual(linkPatch({ ...view, attempt: 0, finding: 'b' }, seen), {});
  assert.deepEqual(linkPatch(view, {}), {});
  assert.deepEqual(linkPatch(emptyView(), { attempt: '1' }), {});
  // attempt 1 may have no step 1 to 2
  assert.deepEqual(linkPatch({ ...view, steps: [1, 2] }, { attempt: '1' }), {});
});

test('keys', () => {
  const keys = new Keys(PAGES);
  assert.deepEqual(keys.action({ key: 'j' }, 0), { act: 'finding-next' });
  assert.deepEqual(keys.action({ key: '?' }, 0), { act: 'help' });
  assert.equal(keys.action({ key: 'j', ctrlKey: true }, 0), null);
  assert.equal(keys.action({ key: 'j', defaultPrevented: true }, 0), null);
  assert.equal(keys.action({ key: 'j', target: { tagName: 'INPUT' } }, 0), null);
  assert.deepEqual(keys.action({ key: 'Escape', target: { tagName: 'INPUT' } }, 0), { act: 'escape' });
  assert.equal(keys.action({ key: 'z' }, 0), null);
});

test('g, then a page, within a moment', () => {
  const keys = new Keys(PAGES);
  assert.equal(keys.action({ key: 'g' }, 0), null);
  assert.deepEqual(keys.action({ key: 't' }, 500), { act: 'page', page: 'timeline' });
  assert.equal(keys.action({ key: 't' }, 600), null);
  keys.action({ key: 'g' }, 1000);
  assert.equal(keys.action({ key: 'o' }, 9000), null);
});

test('typing', () => {
  assert.ok(isTyping({ tagName: 'TEXTAREA' }));
  assert.ok(isTyping({ tagName: 'DIV', isContentEditable: true }));
  assert.ok(!isTyping({ tagName: 'CANVAS' }));
  assert.deepEqual(help(PAGES)[0][1][2], ['g then o t', 'go to overview, timeline']);
  assert.ok(help(PAGES).every(([, rows]) => rows.every((row) => row.length === 2)));
});

test('j and k go around', () => {
  const ids = ['a', 'b', 'c'];
  assert.equal(findingAfter([], null, 1), null);
  assert.equal(findingAfter(ids, null, 1), 'b');  // the first is the one that is shown
  assert.equal(findingAfter(ids, null, -1), 'c');
  assert.equal(findingAfter(ids, 'c', 1), 'a');
  assert.equal(findingAfter(ids, 'a', -1), 'c');
  assert.equal(findingAfter(['a'], null, 1), 'a');
});

test('the age of data', () => {
  assert.equal(age(0.42), '0.4 s');
  assert.equal(age(59.9), '59 s');
  assert.equal(age(125), '2 min');
  assert.equal(age(3 * 3600), '3 h');
  assert.equal(age(5 * 86400), '5 d');
  assert.equal(age(null), '');
});

test('what the live chip says', () => {
  const live = { connected: true, paused: false, data_age_s: 0.5, state: 'running' };
  assert.equal(liveText(live, 0.5), 'live · data 1.0 s old');
  assert.equal(liveText({ ...live, state: 'silent', data_age_s: 14 }, 1), 'silent · data 15 s old');
  assert.equal(liveText({ ...live, paused: true }, 0), 'paused');
  assert.equal(liveText({ ...live, connected: false }, 0), 'reconnecting');
  assert.equal(liveText({ ...live, state: 'finished' }, 9), 'ended');
});

test('the theme is switched and remembered, also without a storage', () => {
  const root = { dataset: { theme: 'dark' } };
  const kept = {};
  assert.equal(toggleTheme(root, { setItem: (key, value) => { kept[key] = value; } }), 'light');
  assert.deepEqual(kept, { theme: 'light' });
  assert.equal(toggleTheme(root, { setItem: () => { throw new Error('closed'); } }), 'dark');
  assert.equal(otherTheme('dark'), 'light');
});

test('a view of its own has defaults until the address says more', () => {
  const defaults = { ranks: [1, 5], steps: [6, 7], rank: 5 };
  assert.deepEqual(viewWithDefaults(emptyView(), defaults), { ...emptyView(), ...defaults });
  const withWindow = { ...emptyView(), ranks: [2], t: [5, 9] };
  assert.deepEqual(viewWithDefaults(withWindow, defaults), { ...withWindow, rank: 5 });  // t wins over steps
  const other = { ...emptyView(), attempt: 0 };
  assert.deepEqual(viewWithDefaults(other, { ...defaults, attempt: 2 }), other);
  assert.deepEqual(viewWithDefaults(other, { ...defaults, attempt: 0 }), { ...other, ...defaults });
});
