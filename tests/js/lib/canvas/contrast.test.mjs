import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { colourTable, contrast, inkOn, rgbOf } from '../../../../assets/lib/canvas/colour.mjs';
import { COLOUR_OF_KIND } from '../../../../assets/lib/canvas/kind_colours.mjs';

const READABLE = 4.5;  // WCAG 2.2, 1.4.3: text
const CSS = new URL('../../../../assets/css/', import.meta.url);

/** Colours of each theme by the name of their variable, as the style sheets have them. */
function themes() {
  const colours = { dark: {}, light: {} };
  for (const name of readdirSync(CSS)) {
    for (const [, theme, block] of readFileSync(new URL(name, CSS), 'utf8').matchAll(/data-theme="(\w+)"\] *\{([^}]*)\}/g)) {
      for (const [, variable, colour] of block.matchAll(/(--[a-z-]+): *(#[0-9A-Fa-f]{6})\b/g)) colours[theme][variable] = colour;
    }
  }
  return Object.entries(colours);
}

test('contrast is that of WCAG', () => {
  assert.equal(contrast([0, 0, 0], [255, 255, 255]), 21);
  assert.equal(contrast([255, 255, 255], [255, 255, 255]), 1);
  assert.equal(contrast(rgbOf('#777777'), [255, 255, 255]).toFixed(2), '4.48');
});

for (const [theme, colours] of themes()) {
  test(`${theme}: names on spans of every kind can be read`, () => {
    for (const [kind, variable] of Object.entries(COLOUR_OF_KIND)) {
      const fill = rgbOf(colours[variable]);
      assert.ok(contrast(rgbOf(inkOn(fill)), fill) >= READABLE, kind);
    }
  });

  test(`${theme}: numbers on cells of every strength can be read`, () => {
    const [noise, more, less] = ['noise', 'more', 'less'].map((name) => colours[`--ramp-${name}`]);
    const table = colourTable({ noise, more, less });
    for (let code = 1; code < 256; code++) {
      const fill = [...table.subarray(4 * code, 4 * code + 3)];
      assert.ok(contrast(rgbOf(inkOn(fill)), fill) >= READABLE, `byte ${code}`);
    }
  });

  test(`${theme}: texts on every background can be read`, () => {
    for (const text of ['text', 'quiet', 'faint', 'link', 'good', 'warn', 'fault']) {
      for (const back of ['page', 'panel', 'raised']) {
        const found = contrast(rgbOf(colours[`--${text}`]), rgbOf(colours[`--${back}`]));
        assert.ok(found >= READABLE, `--${text} on --${back}: ${found.toFixed(2)}`);
      }
    }
  });

  test(`${theme}: a finding can be read on its own background`, () => {
    const fault = rgbOf(colours['--fault']);
    for (const back of ['page', 'panel']) {
      const mixed = fault.map((channel, i) => 0.09 * channel + 0.91 * rgbOf(colours[`--${back}`])[i]);
      assert.ok(contrast(fault, mixed) >= READABLE, back);
    }
  });

  test(`${theme}: the primary button can be read`, () => {
    assert.ok(contrast(rgbOf(colours['--page']), rgbOf(colours['--link'])) >= READABLE);
  });
}
