import assert from 'node:assert/strict';
import { test } from 'node:test';

import { between, codeOf, colourTable, fromOklab, IN_NOISE, NO_DATA, paint, toOklab } from '../../../../assets/lib/canvas/colour.mjs';
import { scaleParts } from '../../../../assets/lib/canvas/colour_legend.mjs';
import { formatValue } from '../../../../assets/lib/value_text.mjs';

const DARK = { noise: '#2B313B', more: '#F2A93B', less: '#58A6FF' };
const LIGHT = { noise: '#DDE1E7', more: '#B05A00', less: '#1B5FBF' };

const labOf = (table, code) => toOklab(`#${[0, 1, 2].map((i) => table[4 * code + i].toString(16).padStart(2, '0')).join('')}`);
const distance = (a, b) => Math.hypot(...a.map((value, i) => value - b[i]));

test('a colour comes back from OKLab', () => {
  for (const hex of ['#000000', '#FFFFFF', '#FF3B6B', '#123F8C']) {
    const back = `#${fromOklab(toOklab(hex)).map((c) => c.toString(16).padStart(2, '0')).join('').toUpperCase()}`;
    assert.equal(back, hex);
  }
  assert.ok(Math.abs(toOklab('#FFFFFF')[0] - 1) < 1e-3);
});

for (const [name, ramp] of Object.entries({ dark: DARK, light: LIGHT })) {
  test(`equal steps of a value look equal, ${name}`, () => {
    const table = colourTable(ramp);
    for (const arm of [0, 1]) {
      const steps = [];
      for (let strength = 1; strength + 14 <= 127; strength += 14) {
        steps.push(distance(labOf(table, 2 * strength + arm), labOf(table, 2 * (strength + 14) + arm)));
      }
      const mean = steps.reduce((a, b) => a + b) / steps.length;
      for (const step of steps) assert.ok(Math.abs(step / mean - 1) < 0.12, `${step} against ${mean}`);
    }
  });

  test(`the faintest colour differs from noise, the arms from each other, ${name}`, () => {
    const table = colourTable(ramp);
    assert.ok(distance(labOf(table, 3), labOf(table, IN_NOISE)) > 0.02);
    assert.ok(distance(labOf(table, 255), labOf(table, 254)) > 0.2);
  });
}

test('what was not recorded is transparent, everything else is not', () => {
  const table = colourTable(DARK);
  assert.equal(table[4 * NO_DATA + 3], 0);
  for (const code of [1, 2, 3, 128, 254, 255]) assert.equal(table[4 * code + 3], 255);
});

test('pixels are the colours of the bytes', () => {
  const table = colourTable(DARK);
  const pixels = paint(Uint8Array.of(255, 0, 1), table);
  assert.deepEqual([...pixels.subarray(0, 3)], between(DARK.more, DARK.more, 0));
  assert.equal(pixels[7], 0);
  assert.deepEqual([...pixels.subarray(8, 12)], [...table.subarray(4, 8)]);
});

test('bytes: noise is grey, the further the greater, more is odd', () => {
  assert.equal(codeOf(NaN, 0.1, 0.5), NO_DATA);
  assert.equal(codeOf(0.1, 0.1, 0.5), IN_NOISE);
  assert.equal(codeOf(0.5, 0.1, 0.5), 255);
  assert.equal(codeOf(-0.5, 0.1, 0.5), 254);
  assert.ok(codeOf(0.2, 0.1, 0.5) < codeOf(0.3, 0.1, 0.5));
  assert.equal(codeOf(0.001, 0, 0.5), IN_NOISE);
});

test('values have their unit, unknown ones a word', () => {
  assert.equal(formatValue(1.4142, { unit: 'x', decimals: 2 }), '1.41 x');
  assert.equal(formatValue(12.345, { unit: 'ms', decimals: 1 }), '12.3 ms');
  assert.equal(formatValue(1234.5, { unit: 'ms', decimals: 1 }), '1235 ms');
  assert.equal(formatValue(NaN, { unit: 'ms', decimals: 1 }), 'not recorded');
});

test('the scale has numbers, and its grey is the noise', () => {
  const metric = { title: 'Slowdown', unit: 'x', decimals: 2 };
  const parts = scaleParts({ metric, full: 0.5, noise: 0.1, centre: 1 }, colourTable(DARK));
  assert.deepEqual(parts.ticks.map(({ text }) => text), ['≤ 0.50 x', '0.75 x', '1.00 x', '1.25 x', '≥ 1.50 x']);
  assert.deepEqual(parts.noise.map((at) => at.toFixed(2)), ['0.40', '0.60']);
  const ms = scaleParts({ metric: { title: 'Wait', unit: 'ms', decimals: 1 }, full: 20, noise: null, centre: null }, colourTable(DARK));
  assert.deepEqual(ms.ticks.map(({ text }) => text), ['≤ -20.0', '-10.0', 'as peers', '+10.0', '≥ +20.0']);
  assert.equal(ms.noise, null);
});
