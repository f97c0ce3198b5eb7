import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nextDirection } from '../../../assets/fleet/run_table.mjs';
import {
  comparedText, day, decades, drawnCauses, duration, hours, parameters, percent, placeOf, progress, runs, slowdown, stack, summary, ticksTo, unknownText,
} from '../../../assets/fleet/text.mjs';

test('why a number is not known ends with a full stop', () => {
  assert.equal(unknownText('the layout is unknown. Set it by hand', 2), 'Not known of 2 runs: the layout is unknown.');
  assert.deepEqual(['no step', 'no step.'].map((why) => unknownText(why, 1)), Array(2).fill('Not known of 1 run: no step.'));
});

test('one host is spoken of as one', () => {
  assert.equal(comparedText(1, 3), '1 host compared in 3 runs, always all of the folder.');
  assert.equal(comparedText(1200, 1), '1,200 hosts compared in 1 run, always all of the folder.');
});

test('numbers as text', () => {
  assert.deepEqual([0, 0.00123, 0.0456, 0.0999, 0.34, 1].map(percent), ['0 %', '0.12 %', '4.6 %', '10 %', '34 %', '100 %']);
  assert.deepEqual([[2.5e-9].map(percent), [6.7e-8, 0.00009].map(hours)], [['<0.00001 %'], ['<0.00001', '0.00009']]);
  assert.deepEqual([0.01234, 1.25, 9.96, 12345.6].map(hours), ['0.012', '1.3', '10', '12,346']);
  assert.deepEqual([340, 7e9, 1.3e12, 3407872].map(parameters), ['340', '7B', '1.3T', '3.41M']);
  assert.deepEqual([0.5, 123.4, 2500, 120000].map(duration), ['0.5 ms', '123 ms', '2.5 s', '2 min']);
  assert.deepEqual([1, 1240].map(runs), ['1 run', '1,240 runs']);
  assert.equal(slowdown(1.03246), '1.032');
  assert.equal(day(1767225600000), '2026-01-01');
});

test('what is not known is a dash', () => {
  assert.deepEqual([percent, hours, parameters, duration, slowdown, day].map((text) => text(null)), Array(6).fill('\u2013'));
});

test('a logarithmic axis has the powers of ten around the values', () => {
  assert.deepEqual(decades([3e6, 7e9]), [1e6, 1e7, 1e8, 1e9, 1e10]);
  assert.deepEqual(decades([1e9]), [1e9, 1e10]);
  assert.equal(placeOf(1e8, [1e6, 1e7, 1e8, 1e9, 1e10]), 0.5);
  assert.equal(placeOf(1, [1e6, 1e7]), 0);
});

test('ticks reach the greatest value', () => {
  assert.deepEqual(ticksTo(0.42), [0, 0.2, 0.4, 0.6]);
  assert.deepEqual(ticksTo(0.4), [0, 0.1, 0.2, 0.3, 0.4]);
  for (const most of [0.003, 0.07, 0.9, 1.7, 3, 333]) {
    const ticks = ticksTo(most);
    assert.ok(ticks[ticks.length - 1] >= most);
    assert.ok(ticks.length <= 6);
  }
});

test('the causes that cost most are drawn apart, the others together', () => {
  const periods = [
    { rank_hours: 100, lost: { slow_worker: 10, start_up: 4, gc_pauses: 1 } },
    { rank_hours: 50, lost: { start_up: 20 } },
    { rank_hours: 0, lost: {} },
  ];
  const drawn = drawnCauses(periods, 2);
  assert.deepEqual(drawn, ['start_up', 'slow_worker']);
  assert.deepEqual(stack(periods[0], drawn).map((value) => Number(value.toFixed(6))), [0.04, 0.1, 0.01]);
  assert.deepEqual(stack(periods[1], drawn), [0.4, 0, 0]);
  assert.deepEqual(stack(periods[2], drawn), []);
});

test('what is shown, in one line', () => {
  const fleet = { num_runs: 2, lost_share: 0.12, rank_hours: 300 };
  assert.equal(summary({ fleet, num_all: 2 }), '2 runs, 12 % of 300 rank-hours lost to known causes');
  assert.equal(summary({ fleet: { ...fleet, lost_share: null }, num_all: 5 }), '2 of 5 runs, wall time unknown');
  assert.match(summary({ fleet, num_all: 2, num_elsewhere: 1 }), /causes; summaries of 1 run are kept in the server's cache/);
  assert.equal(summary({ fleet: { num_runs: 0 }, num_all: 0 }), '0 runs');
});

test('what is still being done', () => {
  assert.equal(progress({ num_missing: 0, current: null }), '');
  assert.match(progress({ num_missing: 3, current: 'llama' }), /^Summarising 3 runs: llama\./);
});

test('a second click turns the order round', () => {
  assert.equal(nextDirection('S', { sort: 'lost', dir: 'asc' }), 'desc');
  assert.equal(nextDirection('run', { sort: 'lost', dir: 'desc' }), 'asc');
  assert.equal(nextDirection('S', { sort: 'S', dir: 'desc' }), 'asc');
});
