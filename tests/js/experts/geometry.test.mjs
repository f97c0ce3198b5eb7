import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellAt, chartOf, drawingOrder, expertTicks, geometryOf, movedCell, rowTicks, stepAt } from '../../../assets/experts/geometry.mjs';

const layers = (count, experts) => Array.from({ length: count }, (_, layer) => ({ layer, name: '', experts }));
const large = { layers: layers(58, 256), experts: 256 };
const mixed = { layers: [...layers(1, 4), ...layers(1, 8)], experts: 8 };

test('58 layers of 256 experts fit on a screen and on a phone', () => {
  for (const width of [1400, 360]) {
    const { plot, wide, high, height } = geometryOf(large, width);
    assert.ok(plot.x + 256 * wide <= width);
    assert.ok(height < 700 && high >= 6);
    assert.equal(Math.round(plot.h), Math.round(58 * high));
  }
});

test('labels of rows and experts do not overlap', () => {
  assert.deepEqual(rowTicks(6, 20), [0, 1, 2, 3, 4, 5]);
  assert.deepEqual(rowTicks(6, 6), [0, 3]);
  const ticks = expertTicks(256, 1338);
  assert.ok(ticks.length > 10 && ticks.length <= 31);
  assert.deepEqual(expertTicks(8, 1338), [0, 1, 2, 3, 4, 5, 6, 7]);
});

test('the cell under a point, and no cell where a layer has fewer experts', () => {
  const geometry = geometryOf(mixed, 400);
  const { plot, wide, high } = geometry;
  const at = (row, expert) => cellAt(mixed, geometry, { x: plot.x + (expert + 0.5) * wide, y: plot.y + (row + 0.5) * high });
  assert.deepEqual(at(1, 7), { row: 1, expert: 7 });
  assert.deepEqual(at(0, 3), { row: 0, expert: 3 });
  assert.equal(at(0, 4), null);
  assert.equal(at(2, 0), null);
  assert.equal(cellAt(mixed, geometry, { x: 3, y: plot.y + 1 }), null);
});

test('arrow keys stay inside the map', () => {
  assert.deepEqual(movedCell(mixed, null, 'ArrowDown'), { row: 0, expert: 0 });
  assert.deepEqual(movedCell(mixed, { row: 1, expert: 7 }, 'ArrowUp'), { row: 0, expert: 3 });
  assert.deepEqual(movedCell(mixed, { row: 1, expert: 7 }, 'ArrowRight'), { row: 1, expert: 7 });
  assert.deepEqual(movedCell(mixed, { row: 0, expert: 0 }, 'ArrowLeft'), { row: 0, expert: 0 });
});

test('what stands out is drawn last, what is not there is not drawn', () => {
  assert.deepEqual(drawingOrder(Uint8Array.from([0, 255, 1, 40, 254])), [2, 3, 1, 4]);
});

test('a chart over steps with gaps', () => {
  const steps = [10, 11, 20];
  const chart = chartOf(steps, 2, 462, 190);
  assert.equal(chart.x(10), chart.plot.x);
  assert.equal(chart.x(20), chart.plot.x + chart.plot.w);
  assert.equal(chart.y(2), chart.plot.y);
  assert.equal(chart.y(5), chart.plot.y);
  assert.equal(stepAt(steps, chart, chart.x(13)), 1);
  assert.equal(stepAt(steps, chart, 9999), 2);
  const one = chartOf([7], 1, 462, 190);
  assert.equal(one.x(7), one.plot.x + one.plot.w / 2);
});
