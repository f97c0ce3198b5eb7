import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { emptyView, formatRanks, formatUrl, parseUrl } from '../../../assets/lib/view_state.mjs';

const PAGES = ['overview', 'timeline', 'ranks', 'experts', 'query', 'what-if', 'efficiency', 'model'].map((name) => ({ name }));
const cases = JSON.parse(readFileSync(new URL('../../app/view_cases.json', import.meta.url), 'utf8'));

function viewOf({ view: { ranks_to: last, ...given } }) {
  const ranks = last === undefined ? {} : { ranks: Array.from({ length: last + 1 }, (_, rank) => rank) };
  return { ...emptyView(), ...given, ...ranks };
}

for (const one of cases) {
  test(`a URL and back: ${one.name}`, () => {
    const base = one.base ?? '';
    const view = parseUrl(one.path, one.search ?? '', base, PAGES);
    assert.deepEqual(view, viewOf(one));
    assert.equal(formatUrl(view, base), one.url);
    const [path, search = ''] = one.url.split('?');
    assert.deepEqual(parseUrl(path, search, base, PAGES), view);
  });
}

test('long SQL is cut by characters, as Python does', () => {
  const { sql } = parseUrl('/run/a/query', `?sql=${'%F0%9F%98%80'.repeat(5000)}`, '', PAGES);
  assert.equal(sql, '\u{1f600}'.repeat(4000));
});

test('ranks as text', () => {
  assert.equal(formatRanks([0, 1, 2, 8, 4, 5]), '0-2,8,4-5');
  assert.equal(formatRanks([]), '');
});
