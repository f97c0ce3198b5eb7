import assert from 'node:assert/strict';
import test from 'node:test';

import { circleShape, NODE } from '../../../assets/stuck/circle_shape.mjs';

for (const count of [2, 3, 5, 12]) {
  test(`a circle of ${count}: ranks lie apart and within the picture, arrows end at the next rank`, () => {
    const { width, height, nodes, arrows } = circleShape(count);
    for (const { x, y } of nodes) {
      assert.ok(x >= NODE.width / 2 && x <= width - NODE.width / 2);
      assert.ok(y >= NODE.height / 2 && y <= height - NODE.height / 2);
    }
    nodes.forEach((node, i) => nodes.slice(i + 1).forEach((other) => {
      assert.ok(Math.abs(node.x - other.x) > NODE.width || Math.abs(node.y - other.y) > NODE.height);
    }));
    arrows.forEach(({ line, head, badge }, i) => {
      const next = nodes[(i + 1) % count];
      const [x, y] = line.at(-1);
      assert.deepEqual(head[0], [x, y]);
      assert.ok(Math.abs(x - next.x) <= NODE.width / 2 + 8 && Math.abs(y - next.y) <= NODE.height / 2 + 8);
      assert.ok(badge.x > 9 && badge.x < width - 9 && badge.y > 9 && badge.y < height - 9);
    });
  });
}
