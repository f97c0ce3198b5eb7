/** Where the ranks of a circle of waits stand in its picture, and how the arrows between them run. Pure. */

export const NODE = { width: 72, height: 28 };
const MARGIN = 8;
const HEAD = 8;

/**
 * @param {number} count of ranks, at least 2
 * @returns {{width: number, height: number, nodes: {x: number, y: number}[],
 *   arrows: {line: [number, number][], head: [number, number][], badge: {x: number, y: number}}[]}}
 *   the arrow of each rank goes to the next one, clockwise
 */
export function circleShape(count) {
  const radius = count === 2 ? 96 : Math.max(72, (count * (NODE.width + 24)) / (2 * Math.PI));
  const bow = count === 2 ? 0.42 : 0.18;
  const height = count === 2 ? 112 : 2 * radius + NODE.height + 2 * MARGIN + 12;
  const width = 2 * radius + NODE.width + 2 * MARGIN;
  const first = count === 2 ? Math.PI : -Math.PI / 2;
  const nodes = Array.from({ length: count }, (_, i) => ({
    x: width / 2 + radius * Math.cos(first + (2 * Math.PI * i) / count),
    y: height / 2 + radius * Math.sin(first + (2 * Math.PI * i) / count),
  }));
  return { width, height, nodes, arrows: nodes.map((node, i) => arrow(node, nodes[(i + 1) % count], bow)) };
}

function arrow(from, to, bow) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const middle = { x: (from.x + to.x) / 2 + dy * bow, y: (from.y + to.y) / 2 - dx * bow };  // outwards
  const at = (t) => [
    (1 - t) ** 2 * from.x + 2 * t * (1 - t) * middle.x + t ** 2 * to.x,
    (1 - t) ** 2 * from.y + 2 * t * (1 - t) * middle.y + t ** 2 * to.y,
  ];
  const points = Array.from({ length: 101 }, (_, i) => at(i / 100)).filter(([x, y]) => !isIn(x, y, from) && !isIn(x, y, to));
  const tip = points.at(-1);
  const before = points.at(-Math.min(8, points.length));
  const along = Math.atan2(tip[1] - before[1], tip[0] - before[0]);
  const side = (turn) => [tip[0] - HEAD * Math.cos(along + turn), tip[1] - HEAD * Math.sin(along + turn)];
  const [x, y] = at(0.5);
  return { line: points, head: [tip, side(0.5), side(-0.5)], badge: { x, y } };
}

const isIn = (x, y, node) => Math.abs(x - node.x) < NODE.width / 2 + 3 && Math.abs(y - node.y) < NODE.height / 2 + 3;
