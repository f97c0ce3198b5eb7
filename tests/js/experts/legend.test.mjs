import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gradientOf } from '../../../assets/experts/legend.mjs';
import { colourTable, cssColour } from '../../../assets/lib/canvas/colour.mjs';

test('the scale goes from the strongest colour of less over grey to that of more', () => {
  const table = colourTable({ noise: '#2B313B', more: '#F2A93B', less: '#58A6FF' });
  const colours = gradientOf(table).match(/rgb\([^)]*\)/g);
  assert.equal(colours.length, 33);
  assert.equal(colours[0], cssColour(table, 254));
  assert.equal(colours[16], cssColour(table, 1));
  assert.equal(colours.at(-1), cssColour(table, 255));
});
