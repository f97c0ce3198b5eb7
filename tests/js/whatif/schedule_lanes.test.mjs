import assert from 'node:assert/strict';
import { test } from 'node:test';
import { layoutOf, opAt } from '../../../assets/whatif/schedule_lanes.mjs';

const shown = {
  step: 3, replica: 0,
  measured: [[['F', 0, 0, 0, 1], ['B', 0, 0, 3, 5]], [['F', 0, 0, 1, 2], ['B', 0, 0, 2, 3]]],
  predicted: [[['F', 0, 0, 0, 1], ['B', 0, 1, 2, 4]], [['F', 0, 0, 1, 2]]],
};

test('both worlds have one axis, and fit', () => {
  const layout = layoutOf(shown, 600);
  assert.ok(layout.end > 5 && layout.end < 5.2);
  assert.ok(layout.tops.predicted >= layout.tops.measured + 2 * layout.lane);
  assert.ok(layout.height >= layout.tops.predicted + 2 * layout.lane);
});

test('a point finds the operation of its device, and nothing between operations', () => {
  const layout = layoutOf(shown, 600);
  const x = (time) => layout.left + (time / layout.end) * (600 - layout.left);
  const at = (world, device, time) => opAt(shown, layout, { x: x(time), y: layout.tops[world] + (device + 0.5) * layout.lane });
  assert.deepEqual(at('measured', 0, 4).op, ['B', 0, 0, 3, 5]);
  assert.deepEqual(at('predicted', 0, 3).op, ['B', 0, 1, 2, 4]);
  assert.equal(at('measured', 1, 1.5).device, 1);
  assert.equal(at('measured', 0, 2), null);
  assert.equal(opAt(shown, layout, { x: x(1), y: 2 }), null);
});
