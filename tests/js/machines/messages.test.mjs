import assert from 'node:assert/strict';
import test from 'node:test';

import { aboutMap, cellLines, furthestCells, medianOf, rangeText, shownText } from '../../../assets/machines/messages.mjs';

const DATA = {
  hosts: ['a', 'b', 'c', ''], compares: true,
  columns: [{ title: 'GPU SM clock', unit: 'MHz', doc: 'clock of the multiprocessors', kind: 'gpu' }, { title: 'sent', unit: 'B/s', doc: '', kind: 'port' }],
  value: Float32Array.of(1980, 4e9, 1980, NaN, 1893, 2e9, 1980, 4e9),
  least: Float32Array.of(1980, 4e9, 1980, NaN, 1110, 2e9, 1980, 4e9),
  most: Float32Array.of(1980, 4e9, 1980, NaN, 1980, 2e9, 1980, 4e9),
  code: Uint8Array.of(1, 1, 1, 0, 200, 255, 1, 1), which: Uint8Array.of(0, 0, 0, 0, 1, 0, 0, 0),
};

test('a cell shows the device that is furthest from the others', () => {
  assert.equal(shownText(DATA, 4, DATA.columns[0]), 'least 1,110 MHz');
  assert.equal(rangeText(DATA, 4, DATA.columns[0]), '1,110 MHz to 1,980 MHz, mean 1,893 MHz');
  assert.equal(rangeText(DATA, 0, DATA.columns[0]), '');
  assert.deepEqual(cellLines(DATA, { row: 2, column: 0 }), [
    'c: GPU SM clock', 'least 1,110 MHz', 'its gpu devices: 1,110 MHz to 1,980 MHz, mean 1,893 MHz',
    'median host: 1,980 MHz', 'clock of the multiprocessors']);
  assert.equal(cellLines(DATA, { row: 3, column: 1 })[0], 'unknown host: sent');
});

test('the strongest deviations come first; hosts without a value have no median', () => {
  assert.deepEqual(furthestCells(DATA, 1), [{ host: 'c', row: 2, column: 1 }]);
  assert.equal(medianOf(DATA, 1), 4e9);
  assert.equal(medianOf({ ...DATA, value: new Float32Array(8).fill(NaN) }, 0), null);
});

test('few hosts are not compared', () => {
  assert.match(aboutMap({ hosts: ['a'], compares: false }), /^1 host: too few/);
  assert.match(aboutMap(DATA), /^4 hosts; coloured/);
});
