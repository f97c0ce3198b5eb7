/** Who waits for whom: a tree from the ranks where it began, or a drawn circle. */
import { make } from '../lib/dom.mjs';
import { circleShape, NODE } from './circle_shape.mjs';

const SVG = 'http://www.w3.org/2000/svg';
const MOST_DRAWN = 12;

/** @param {Object} found answer of the server */
export function whoWaits({ tree, circles = [], waits }) {
  if (circles.length) return make('div', { class: 'stuck-circles' }, circles.map(circle));
  if (!tree.length) return make('ul', { class: 'stuck-tree' }, waits.map(({ text }) => make('li', {}, text)));
  return make('ul', { class: 'stuck-tree' }, tree.map((branch) => branchItem(branch, true)));
}

function branchItem({ rank, op, branches, blamed }, isRoot = false) {
  const name = isRoot && blamed !== false ? make('strong', { class: 'culprit' }, rank) : make('span', {}, rank);
  const where = op ? make('span', { class: 'quiet' }, ` in ${op}`) : [];
  if (!branches.length) return make('li', {}, name, where);
  const verb = rank.startsWith('ranks') ? 'are' : 'is';
  return make('li', {}, name, where, make('span', { class: 'quiet' }, `${op ? ', and' : ''} ${verb} waited for by`),
    make('ul', {}, branches.map((branch) => branchItem(branch))));
}

/** Ranks on a circle, each with an arrow to the one that it waits for; the numbers are those of the list. */
function circle(links) {
  const sentences = links.map(({ rank, waits_for: other, op }) => make('li', {},
    make('strong', { class: 'culprit' }, `rank ${rank}`), ` waits for rank ${other} in ${op}`));
  const list = make('ol', {}, sentences);
  return make('div', { class: 'stuck-circle' }, links.length <= MOST_DRAWN ? picture(links) : [], list);
}

function picture(links) {
  const { width, height, nodes, arrows } = circleShape(links.length);
  const label = `A circle of waits: ${links.map(({ rank }) => `rank ${rank}`).join(', ')} and back to rank ${links[0].rank}`;
  return svg('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': label },
    ...arrows.map(({ line, head, badge }, index) => svg('g', { class: 'stuck-arrow' },
      svg('polyline', { points: line.join(' '), fill: 'none' }), svg('polygon', { points: head.join(' ') }),
      svg('circle', { cx: badge.x, cy: badge.y, r: 9 }), text(badge, String(index + 1)))),
    ...nodes.map((node, index) => svg('g', { class: 'stuck-node' },
      svg('rect', { x: node.x - NODE.width / 2, y: node.y - NODE.height / 2, width: NODE.width, height: NODE.height, rx: 6 }),
      text(node, `rank ${links[index].rank}`))));
}

const text = ({ x, y }, content) => svg('text', { x, y, 'text-anchor': 'middle', 'dominant-baseline': 'central' }, content);

function svg(tag, attributes, ...content) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...content);
  return element;
}
