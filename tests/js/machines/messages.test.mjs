import assert from 'node:assert/strict';
import test from 'node:test';

import { aboutMap, cellLines, furthestCells, rangeText, shownText } from '../../../assets/machines/messages.mjs';

const DATA = {
  hosts: ['a', 'b', 'c', ''], compares: true, num_hosts: 4, medians: [1980, 4e9],
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

test('the strongest deviations come first', () => {
  assert.deepEqual(furthestCells(DATA, 1), [{ host: 'c', row: 2, column: 1 }]);
});

test('few hosts are not compared', () => {
  assert.match(aboutMap({ hosts: ['a'], compares: false, num_hosts: 1 }), /^1 host: too few/);
  assert.match(aboutMap(DATA), /^4 hosts; coloured/);
  assert.match(aboutMap({ ...DATA, num_hosts: 1536 }), /^the 4 of 1,536 hosts that differ most; coloured/);
});
