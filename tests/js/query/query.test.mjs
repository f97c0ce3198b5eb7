import assert from 'node:assert/strict';
import test from 'node:test';
import { emptyView } from '../../../assets/lib/view_state.mjs';
import { timelineView } from '../../../assets/query/answer_table.mjs';
import { cell, countSentence, isNumber, rankOf } from '../../../assets/query/cell_text.mjs';
import { command, describe, missing, placeholder, request, shellWord, values } from '../../../assets/query/saved_query.mjs';

const parameter = (name, given = {}) => ({ name, type: 'int', required: false, default: 'null', doc: '', ...given });
const question = {
  name: 'late_ranks',
  parameters: [
    parameter('step_min', { default: '0' }), parameter('step_max', { default: '9223372036854775806' }),
    parameter('rank', { required: true, default: '' }), parameter('attempt', { default: 'newest' }),
    parameter('now_ns', { required: true, default: '' }), parameter('from_ns', { default: '0' }),
  ],
};
const T0 = '1795259040869159448';

test('a form takes what the view shows, and what was typed before that', () => {
  const view = { ...emptyView(), rank: 5, attempt: 0, steps: [10, 20], t: [1, 2], args: { step_max: '12' } };
  assert.deepEqual(values(question, view, T0), {
    step_min: '10', step_max: '12', rank: '5', attempt: '0', from_ns: '1795259040869159449',
  });
  assert.deepEqual(values(question, emptyView(), T0), {});
  assert.deepEqual(missing(question, {}), ['rank']);
  assert.deepEqual(request(question, { rank: '5' }), { q: 'late_ranks', 'q.rank': '5' });
});

test('empty fields say what they stand for', () => {
  assert.deepEqual(question.parameters.map(placeholder), ['0', 'last', 'required', 'newest', 'now', '0']);
  assert.equal(placeholder(parameter('axis')), 'all');
  assert.equal(placeholder(parameter('axis', { doc: 'x; default: within a stage' })), 'within a stage');
});

test('a parameter is described in words', () => {
  assert.equal(describe(parameter('step_min', { default: '0', doc: 'first step wanted' })), 'first step wanted (whole number; default: 0)');
  assert.equal(describe(parameter('axis', { type: 'text', doc: 'an axis (tp, ...), or `all`; default: all within one stage' })),
    'an axis (tp, ...), or “all” (text; default: all within one stage)');
  assert.equal(describe(parameter('tensor', { type: 'text', required: true })), 'text; required');
});

test('the same question for a terminal', () => {
  assert.equal(command('/runs/a b', question, { rank: '5' }, null), "rankscope query '/runs/a b' late_ranks rank=5");
  assert.equal(command('/runs/a', null, {}, "SELECT 'it''s'"), "rankscope query /runs/a 'SELECT '\\''it'\\'''\\''s'\\'''");
  assert.equal(shellWord(''), "''");
  assert.equal(shellWord('$(rm -rf /)'), "'$(rm -rf /)'");
});

const text = (name, kind, value) => cell({ name, kind }, value).text;

test('values read as what they are', () => {
  assert.equal(text('dur_ns', 'int', 1_234_567), '1.235 ms');
  assert.equal(text('dur_ns', 'int', 12), '12 ns');
  assert.equal(text('offset_ns', 'int', -1), '-1 ns');
  assert.equal(text('cpu_ns', 'int', -1), '\u2013');
  assert.equal(text('microbatch', 'int', -1), '\u2013');
  assert.equal(text('step', 'int', -1), '-1');
  assert.equal(text('num_bytes', 'int', 2_500_000), '2.50 MB');
  assert.equal(text('num_spans', 'int', 13792), '13,792');
  assert.equal(text('rank', 'int', 12287), '12287');
  assert.equal(text('x', 'int', '9007199254740993'), '9007199254740993');
  assert.equal(text('x', 'float', 0.0000123), '1.230e-5');
  assert.equal(text('x', 'float', 1.528503713), '1.5285');
  assert.equal(text('x', 'float', 'nan'), 'nan');
  assert.equal(text('x', 'bool', true), 'yes');
  assert.equal(text('x', 'text', null), '\u2013');
  assert.match(cell({ name: 'ts_ns', kind: 'int' }, T0).title, /2026-11-21 .* UTC, 1795259040869159448 ns/);
  assert.match(text('ts_ns', 'int', T0), /^2026-11-2\d \d\d:\d\d:\d\d\.\d{3}$/);
});

test('ranks lead to their timeline, at the step of the row', () => {
  const columns = [{ name: 'rank', kind: 'int' }, { name: 'step', kind: 'int' }, { name: 'host', kind: 'text' }];
  assert.equal(rankOf(columns[0], 5), 5);
  assert.equal(rankOf(columns[0], null), null);
  assert.equal(rankOf(columns[0], -1), null);
  assert.equal(rankOf(columns[1], 5), null);
  assert.ok(isNumber(columns[0]) && !isNumber(columns[2]));
  const view = { ...emptyView(), run: 'a', page: 'query', q: 'late_ranks', args: { top: '3' } };
  const target = timelineView(view, columns, [5, 7, 'h'], 5);
  assert.deepEqual([target.page, target.rank, target.steps, target.q, target.args], ['timeline', 5, [7, 7], null, {}]);
  assert.equal(timelineView(view, columns, [5, -1, 'h'], 5).steps, null);
});

test('the count says how far it went', () => {
  const rows = Array(3).fill([1]);
  assert.equal(countSentence({ rows, num_rows: 3, is_counted: true, seconds: 0.0004 }), '3 rows in 1 ms');
  assert.equal(countSentence({ rows: [[1]], num_rows: 1, is_counted: true, seconds: 1.25 }), '1 row in 1.3 s');
  assert.equal(countSentence({ rows, num_rows: 25000, is_counted: true, seconds: 0.1 }), 'first 3 of 25,000 rows in 100 ms; CSV has all');
  assert.equal(countSentence({ rows, num_rows: 25000, is_counted: false, seconds: 0.1 }), 'first 3 of more than 25,000 rows in 100 ms; CSV has all');
});
