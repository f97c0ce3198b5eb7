import assert from 'node:assert/strict';
import { formatNumber } from '../../../assets/lib/value_text.mjs';
import { test } from 'node:test';

import { ackLines } from '../../../assets/lib/commands.mjs';
import { axisOf, missingAxes } from '../../../assets/model/health/axis_choice.mjs';
import { lineOf } from '../../../assets/model/health/comparison_run.mjs';
import {
  columnOfStep, drawnRowOf, healthData, rowLabel, rowsOf, rowText, smoothed, tableRows,
} from '../../../assets/model/health/health_data.mjs';
import { costTexts, watchOf, watchText } from '../../../assets/model/inspect/watch_form.mjs';
import {
  axisText, decodeFrame, difference, frameText, partsOfKey, frameKey, tokenOf, tokenText,
} from '../../../assets/model/shared/frame.mjs';
import { codesOf, codesOfTile, gridOf, peakOf, thumbnail } from '../../../assets/model/shared/frame_codes.mjs';
import { merged } from '../../../assets/model/shared/model_state.mjs';
import {
  axisTitle, placed, placeLines, placeTicks, tokensText, xOfMiddle, xOfStepMiddle,
} from '../../../assets/model/shared/progress_axis.mjs';
import {
  codeOfValue, FAULT, levelText, makeScale, passed, rangeOf, WARN,
} from '../../../assets/model/shared/statistic_scale.mjs';

const LOGITS = {
  name: 'max_logit', title: 'Largest attention logit', scale: 'log', levels: [
    { value: 100, severity: 'warn', is_above: true, text: 'QK-clip acts from 100 on', source: 's' },
    { value: 1e4, severity: 'fault', is_above: true, text: 'runs above 1e4 diverged', source: 's' },
  ],
};
const LOG = { name: 'rms', title: 'RMS', scale: 'log', levels: [] };

test('numbers keep four digits and say what is not there', () => {
  assert.deepEqual([0, 4096, 0.012345, 1.2e-8, 123456.7, NaN, null].map(formatNumber),
    ['0', '4,096', '0.01235', '1.2e-8', '1.23e+5', 'not recorded', 'not recorded']);
});

test('the worst level passed counts', () => {
  assert.equal(passed(50, LOGITS.levels), null);
  assert.equal(passed(101, LOGITS.levels).severity, 'warn');
  assert.equal(passed(2e4, LOGITS.levels).severity, 'fault');
  assert.equal(passed(NaN, LOGITS.levels), null);
  assert.equal(passed(5e-9, [{ value: 1e-8, severity: 'warn', is_above: false }]).severity, 'warn');
  assert.equal(passed(1, [{ value: 1e-3, severity: 'usual', is_above: true }]), null);
  assert.equal(levelText(LOGITS.levels[0]), 'above 100: QK-clip acts from 100 on');
});

test('a log scale goes from the least to the greatest value, zeros stand at its foot', () => {
  const range = rangeOf(LOG, [NaN, 0, 1e-4, 1, 1e4, Infinity]);
  assert.deepEqual(range, [1e-4, 1e4]);
  const scale = makeScale(LOG, range);
  assert.deepEqual([0, 1e-4, 1, 1e4].map(scale.share), [0, 0, 0.5, 1]);
  assert.ok(scale.ticks.some(({ text }) => text === '1e0'));
  assert.equal(rangeOf(LOG, [NaN, 0]), null);
  assert.ok(makeScale(LOG, null).ticks.length > 1);
  const one = makeScale(LOG, [3, 3]);
  assert.ok(Math.abs(one.share(3) - 0.5) < 1e-9);
});

test('signed values have 0 in the middle, shares go from 0 to 1', () => {
  const signed = { scale: 'signed', levels: [] };
  const scale = makeScale(signed, rangeOf(signed, [-2, 1]));
  assert.deepEqual([-2, 0, 2].map(scale.share), [0, 0.5, 1]);
  assert.equal(codeOfValue(-2, signed, scale), codeOfValue(2, signed, scale));
  assert.deepEqual([0, 0.25, 3].map(makeScale({ scale: 'linear' }, null).share), [0, 0.25, 1]);
});

test('colours: nothing, more and more, alarms in the other arm', () => {
  const scale = makeScale(LOGITS, [1, 1e5]);
  const codes = [NaN, 1, 10, 99, 101, 2e4].map((value) => codeOfValue(value, LOGITS, scale));
  assert.equal(codes[0], 0);
  assert.ok(codes[1] < codes[2] && codes[2] < codes[3]);
  assert.ok(codes.slice(1, 4).every((code) => code % 2 === 0));
  assert.deepEqual(codes.slice(4), [WARN, FAULT]);
});

test('smoothing forgets by its weight and begins at the first value', () => {
  assert.deepEqual(smoothed([4, 4, 4], 0.9).map((v) => Number(v.toFixed(6))), [4, 4, 4]);
  assert.deepEqual(smoothed([1, 2, 3], 0), [1, 2, 3]);
  const [first, second, gap, after] = smoothed([0, 1, NaN, 1], 0.5);
  assert.equal(first, 0);
  assert.ok(Math.abs(second - 2 / 3) < 1e-9);
  assert.ok(Number.isNaN(gap));
  assert.ok(after > second && after < 1);
});

const ROWS = [['0', 0, '', -1], ['3.mlp', 3, 'mlp', -1], ['3.h5', 3, 'attn', 5], ['-1.head', -1, 'head', -1]]
  .map(([key, layer, part, head]) => ({ key, layer, part, head, name: key }));
const DATA = healthData({
  arrays: {
    value: Float32Array.of(1, 2, 3, 4), rows: Uint32Array.of(0, 2, 4), columns: Uint32Array.of(0, 3, 6),
    first_step: Float64Array.of(0, 30), last_step: Float64Array.of(20, 50), last: [1, 2, 3, 4], least: [0, 0, 0, 0],
    greatest: [1, 200, 3, NaN], worst_step: [0, 10, 20, NaN],
  },
  meta: { height: 2, width: 2, rows: ROWS, statistic: LOGITS, tensor: 'heads', num_steps: 6 },
});

test('rows have names, and are found when several share a drawn row', () => {
  assert.deepEqual(ROWS.map(rowText), ['layer 0', 'layer 3, mlp', 'layer 3, head 5', 'head']);
  assert.deepEqual(ROWS.map(rowLabel), ['0', '3 mlp', '3 · 5', 'head']);
  assert.deepEqual(['0', '3.mlp', '3.h5', '-1.head', 'x'].map((key) => drawnRowOf(DATA, key)), [0, 0, 1, 1, -1]);
  assert.deepEqual(rowsOf(DATA, 1).map(({ key }) => key), ['3.h5', '-1.head']);
  assert.deepEqual([0, 20, 25, 50, 51].map((step) => columnOfStep(DATA, step)), [0, 0, 1, 1, -1]);
});

const GEOMETRY = { width: 120, height: 60, plot: { x: 10, y: 8, w: 100, h: 40 } };
const STEPS = { width: 3, columns: [0, 1, 2, 3], firstStep: [0, 100, 200], lastStep: [0, 100, 200] };

test('columns reach halfway to their neighbours on the axis of the run', () => {
  const time = placed(STEPS, { name: 'time', from_step: 0 }, Float64Array.of(0, 20, 80));
  assert.deepEqual(time.columns, [0, 20, 60, 120]);
  assert.equal(time.from, -10);
  assert.deepEqual([0, 1, 2].map((at) => Math.round(xOfMiddle(time, GEOMETRY, at))), [18, 35, 85]);
  assert.equal(xOfStepMiddle(time, GEOMETRY, 100), xOfMiddle(time, GEOMETRY, 1));
  assert.deepEqual(placeLines(time, 1), ['20 s after step 0 began']);
  assert.equal(axisTitle(time), 'time since step 0 began');
  assert.deepEqual(placed(STEPS, { name: 'time' }, Float64Array.of(5)).columns, [0, 1]);
});

test('without an axis, or without any way along it, there are the steps', () => {
  for (const data of [placed(STEPS, null, undefined), placed(STEPS, { name: 'tokens' }, Float64Array.of(7, 7, 7))]) {
    assert.equal(data.axis, null);
    assert.deepEqual(data.columns, STEPS.columns);
    assert.equal(axisTitle(data), 'step');
    assert.deepEqual(placeLines(data, 1), []);
    assert.equal(xOfStepMiddle(data, GEOMETRY, 100), 60);
  }
});

test('time has round numbers of a fitting unit, tokens of a thousand, a million and so on', () => {
  const texts = (name, ...place) => placeTicks(placed(STEPS, { name, from_step: 4 }, place), GEOMETRY, 3).map(({ text }) => text);
  assert.deepEqual(texts('time', 0, 3600, 7200), ['0 h', '1 h', '2 h']);
  assert.deepEqual(texts('time', 0, 0.01, 0.02), ['0 ms', '10 ms', '20 ms']);
  assert.deepEqual(texts('tokens', 1e6, 2e6, 3e6), ['1M', '2M', '3M']);
  assert.deepEqual([0, 999, 15000, 1.25e9, 3e12].map(tokensText), ['0', '999', '15K', '1.25B', '3T']);
  assert.equal(axisTitle(placed(STEPS, { name: 'tokens', from_step: 4 }, [1, 2, 3])), 'tokens since step 4');
});

test('only an existing axis is taken from the view state; missing axes are explained', () => {
  assert.deepEqual([{}, { axis: 'tokens' }, { axis: 'years' }].map(axisOf), ['', 'tokens', '']);
  assert.equal(missingAxes([{ name: 'time', why_not: '' }, { name: 'tokens', why_not: 'it tells none' }]), 'No axis of tokens: it tells none.');
});

test('the table has what alarms first', () => {
  const rows = tableRows(DATA, (value) => passed(value, LOGITS.levels));
  assert.deepEqual(rows.map(({ row }) => row.key), ['3.mlp', '0', '3.h5', '-1.head']);
  assert.equal(rows[0].level.severity, 'warn');
  assert.equal(rows[0].worstStep, 10);
  assert.equal(tableRows(DATA, () => null, 2).length, 2);
});

test('links hold what is set and nothing else', () => {
  assert.deepEqual(merged({ row: '3', smooth: '0.5' }, { row: null, step: 7, tensor: '' }), { smooth: '0.5', step: '7' });
});

/** A frame on the wire, as trace_hooks/protocol/frames.py packs it. */
function wire(header, bytes) {
  let text = JSON.stringify(header);
  text += ' '.repeat((8 - (8 + text.length) % 8) % 8);
  const head = new TextEncoder().encode(text);
  const all = new Uint8Array(8 + head.length + bytes.length);
  all.set(new TextEncoder().encode('RSF1'));
  new DataView(all.buffer).setUint32(4, head.length, true);
  all.set(head, 8);
  all.set(bytes, 8 + head.length);
  return all.buffer;
}

const HEAD = {
  step: 3, what: 'attention', layer: 1, head: 2, name: 'a', shard: 'tp=0', sample: 0, row_begin: 4, row_every: 2, rank: 0,
  scale: 0.5, zero: 1, labels: '["a","b"]',
};

test('a frame is read as it was written', () => {
  const bytes = decodeFrame(wire({ ...HEAD, shape: [2, 2], dtype: 'uint8' }, Uint8Array.of(0, 1, 2, 255)));
  assert.deepEqual([...bytes.values], [1, 1.5, 2, 128.5]);
  assert.deepEqual([bytes.rows, bytes.columns, bytes.texts], [2, 2, ['a', 'b']]);
  const halves = new Uint16Array([0x3c00, 0xc000, 0x7e00, 0x0001, 0x7c00, 0x0000]);
  const cube = decodeFrame(wire({ ...HEAD, shape: [1, 3, 2], dtype: 'float16', scale: 2, zero: 0, labels: null }, new Uint8Array(halves.buffer)));
  assert.deepEqual([...cube.values].slice(0, 2), [2, -4]);
  assert.ok(Number.isNaN(cube.values[2]));
  assert.ok(Math.abs(cube.values[3] - 2 ** -23) < 1e-12);
  assert.equal(cube.values[4], Infinity);
  assert.deepEqual([cube.rows, cube.columns, cube.texts], [3, 2, []]);
  const loss = decodeFrame(wire({ ...HEAD, what: 'token_loss', shape: [3, 1], dtype: 'float32', labels: '[7,[8,"<b>"],null]' },
    new Uint8Array(Float32Array.of(0.1, 2, NaN).buffer)));
  assert.deepEqual([...loss.values], [...Float32Array.of(0.1, 2, NaN)]);
  assert.deepEqual(loss.labels, [{ id: 7, text: null }, { id: 8, text: '<b>' }, { id: null, text: null }]);
  assert.deepEqual(loss.names, []);
  assert.throws(() => decodeFrame(new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]).buffer), /no frame/);
});

test('places of frames go into links and come back', () => {
  const strip = { layer: -1, head: -1, name: 'lm_head', shard: 'whole' };
  assert.equal(frameKey(HEAD), '1.2');
  assert.deepEqual(partsOfKey('1.2'), { layer: 1, head: 2, name: null, shard: null });
  assert.deepEqual(partsOfKey(frameKey(strip)), strip);
  assert.equal(partsOfKey('nonsense'), null);
  assert.equal(frameText(HEAD), 'layer 1, head 2');
  assert.equal(frameText(strip), 'lm_head');
  assert.equal(frameText({ layer: 3, head: -1, name: 'layers.3.mlp', shard: 'tp=1' }), 'layer 3, layers.3.mlp tp=1');
});

test('rows are tokens, also where only some were kept', () => {
  assert.deepEqual([0, 1].map((row) => tokenOf(HEAD, row)), [4, 6]);
  assert.equal(tokenText({ names: ['a', 'the'] }, 1), '1 "the"');
  assert.equal(tokenText({ names: [3, 1023] }, 1), '1 #1023');
  assert.equal(tokenText({ names: [] }, 7), '7');
  assert.equal(axisText(' <b>\n'), '·<b>\\n');
});

test('a row of another run is a line over its own steps', () => {
  const data = {
    width: 3, rowEdges: [0, 1, 2], rows: [{ key: '0' }, { key: '1' }], firstStep: [10, 20, 40],
    value: Float32Array.of(1, 2, 3, 4, NaN, 6),
  };
  assert.deepEqual(lineOf(data, '1', 0), { steps: [10, 40], values: [4, 6], places: null });
  assert.deepEqual(lineOf({ ...data, axis: { name: 'time' }, place: [1, 2, 5] }, '1', 0).places, [1, 5]);
  assert.deepEqual(lineOf(data, '7', 0), { steps: [], values: [], places: null });
});

test('a difference is of frames of one shape', () => {
  const frame = { rows: 1, columns: 2, row_begin: 0, row_every: 1, values: Float32Array.of(3, 1), step: 9 };
  const other = { ...frame, values: Float32Array.of(1, 1), step: 5 };
  const made = difference(frame, other, 'step 5 of run b').frame;
  assert.deepEqual([[...made.values], made.step, made.less], [[2, 0], 9, 'step 5 of run b']);
  assert.equal(difference(frame, { ...other, columns: 1 }, 'step 5').problem, 'not compared with step 5: it is 1 × 1 there and 1 × 2 here');
  assert.match(difference(frame, { ...other, row_begin: 4 }, 'step 5').problem, /its rows are different tokens there/);
});

test('colours of frames: by root for shares, two arms for signs, the same from thumbnails', () => {
  const values = Float32Array.of(0, 0.25, 1, NaN);
  assert.deepEqual([...codesOf(values, false, 1)], [1, 128, 254, 0]);
  assert.deepEqual([...codesOf(Float32Array.of(-2, 0, 2, 9), true, 2)], [254, 1, 255, 255]);
  assert.deepEqual([...codesOfTile(Uint8Array.of(0, 1, 255), false)], [0, 1, 254]);
  assert.deepEqual([...codesOfTile(Uint8Array.of(0, 1, 128, 255), true)], [0, 254, 1, 255]);
  assert.equal(peakOf(Float32Array.of(1, -3, Infinity, NaN)), 3);
  const small = thumbnail({ values: Float32Array.of(1, 3, -2, -2), rows: 1, columns: 4 }, 1, 2, true);
  assert.deepEqual([...small], [255, 254]);
  assert.deepEqual([...thumbnail({ values: Float32Array.of(4), rows: 1, columns: 1 }, 2, 2, false)], [254, 254, 254, 254]);
});

test('thumbnails stand by layer and head, others by module and shard', () => {
  const heads = [[1, 5], [0, 2], [1, 2]].map(([layer, head]) => ({ layer, head, name: 'a', shard: `tp=${head % 2}` }));
  assert.deepEqual(gridOf(heads), { rows: ['0', '1'], columns: [2, 5], at: [[1, 1], [0, 0], [1, 0]] });
  const strips = [{ layer: -1, head: -1, name: 'out', shard: 'whole' }, { layer: 0, head: -1, name: 'm', shard: 'tp=0' }];
  assert.deepEqual(gridOf(strips), { rows: ['0 tp=0', 'out'], columns: [-1], at: [[1, 0], [0, 0]] });
});

const FORM = { what: 'attention', layers: '0-2, 7', heads: 'all', every: '2', steps: '100', size: '256', rate: '4', samples: '0' };

test('a form becomes a watch, or a sentence', () => {
  assert.deepEqual(watchOf(FORM, 40, ['attention']), {
    id: 'attention-2', what: 'attention', layers: [0, 1, 2, 7], heads: 'all', every: 2, samples: [0], until: 140, size: 256,
    bytes_per_s: 4 * 2 ** 20,
  });
  const least = watchOf({ ...FORM, every: '', steps: '', size: '', rate: '', samples: 'mean', layers: '' }, null, []);
  assert.deepEqual(least, { id: 'attention', what: 'attention', layers: 'all', heads: 'all', every: 1, samples: 'mean' });
  assert.throws(() => watchOf({ ...FORM, layers: '3-1' }, 0, []), /Layers are "3-1"; give numbers/);
  assert.throws(() => watchOf({ ...FORM, heads: '0-9999' }, 0, []), /At most 64 Heads/);
  assert.throws(() => watchOf({ ...FORM, every: 'x' }, 0, []), /give a whole number/);
});

test('texts of watches, costs and answers', () => {
  assert.equal(watchText({ what: 'attention', layers: [0, 1], heads: 'all', every: 2, until: 90, samples: [0] }),
    'attention of layers 0-1, all heads, every 2 steps until step 90, sequences 0');
  assert.deepEqual(costTexts(null), ['nothing captured yet']);
  assert.deepEqual(costTexts({ cost_ms_per_step: 1.234, bytes_per_s: 3 << 20, frames: 1200, thinned: 3 }),
    ['at most 1.23 ms a step on the rank it costs most', '3.0 MB/s', '1,200 frames', '3 dropped by the rate limit']);
  const lines = ackLines({ acks: [{ rank: 0, ok: true, text: 'layers 0 to 3' }, { rank: 1, ok: true, text: 'layers 0 to 3' },
    { rank: 2, ok: false, text: 'no layer 9' }], silent: [3] });
  assert.deepEqual(lines.map(({ ranks, ok }) => [ranks, ok]), [[[2], false], [[3], false], [[0, 1], true]]);
});
