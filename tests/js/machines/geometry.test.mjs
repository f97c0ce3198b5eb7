import assert from 'node:assert/strict';
import test from 'node:test';

import { cellAt, drawingOrder, geometryOf, hostTicks, movedCell } from '../../../assets/machines/geometry.mjs';

const DATA = { hosts: ['a', 'b', 'c'], columns: [{}, {}] };

test('a point finds its cell and nothing outside of the plot', () => {
  const geometry = geometryOf(DATA, 600);
  const { plot, wide, high } = geometry;
  assert.deepEqual(cellAt(DATA, geometry, { x: plot.x + 1.5 * wide, y: plot.y + 2.5 * high }), { row: 2, column: 1 });
  assert.equal(cellAt(DATA, geometry, { x: plot.x - 1, y: plot.y + 1 }), null);
  assert.equal(cellAt(DATA, geometry, { x: plot.x + 1, y: plot.y + plot.h + 1 }), null);
});

test('1,536 hosts fit into a bounded height, and their labels do not overlap', () => {
  const many = { hosts: Array(1536).fill('x'), columns: DATA.columns };
  const { height, high } = geometryOf(many, 600);
  assert.ok(height < 800);
  const ticks = hostTicks(1536, high);
  assert.ok((ticks[1] - ticks[0]) * high >= 13);
  assert.equal(ticks[0], 0);
});

test('the strongest cells are drawn last, over those of the same pixel', () => {
  assert.deepEqual(drawingOrder(Uint8Array.of(200, 1, 0, 31, 1)), [1, 4, 3, 0]);
});

test('titles lie flat where there is room', () => {
  assert.ok(geometryOf(DATA, 600).isFlat);
  const { isFlat, plot } = geometryOf({ hosts: ['a'], columns: Array(9).fill({}) }, 600);
  assert.ok(!isFlat && plot.y > 100);
});

test('a phone has no negative lengths', () => {
  const { plot, wide } = geometryOf({ hosts: ['a'], columns: Array(60).fill({}) }, 90);
  assert.ok(plot.w > 0 && wide > 0);
});

test('arrow keys stay inside', () => {
  assert.deepEqual(movedCell(DATA, null, 'ArrowDown'), { row: 0, column: 0 });
  assert.deepEqual(movedCell(DATA, { row: 0, column: 0 }, 'ArrowUp'), { row: 0, column: 0 });
  assert.deepEqual(movedCell(DATA, { row: 2, column: 1 }, 'ArrowRight'), { row: 2, column: 1 });
  assert.deepEqual(movedCell(DATA, { row: 1, column: 1 }, 'ArrowLeft'), { row: 1, column: 0 });
});
