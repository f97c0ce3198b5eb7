/** Draws over the cubes: axes with their sizes and ticks, rank numbers, lines of the groups. */
import { pick, project } from './camera.mjs';

const NAMES = { pp: 'PP stage', dp: 'DP replica', tp: 'TP', cp: 'CP' };
const NUMBERED_FROM = 22;  // pixels of a cube
const MOST_NUMBERED = 250;
const SHORTEST = 18;  // pixels of an axis with numbers
const PLATE_HEIGHT = 16;

/**
 * @param {CanvasRenderingContext2D} ctx @param {import('./layout.mjs').Placed} placed
 * @param {Object} state {camera, ranks, theme, selected, places, codes, culprits}
 */
export function drawLabels(ctx, placed, state) {
  const { camera, theme } = state;
  ctx.clearRect(0, 0, camera.width, camera.height);
  ctx.font = `11px ${theme.font}`;
  for (const axis of placed.axes.filter(({ size }) => size > 1)) drawAxis(ctx, placed, axis, camera, theme);
  const isSmall = camera.scale < NUMBERED_FROM;
  if (isSmall && state.selected >= 0 && !placed.flat) drawGroups(ctx, placed, state);
  if (!isSmall) drawNumbers(ctx, placed, state);
  if (isSmall) drawBeacons(ctx, placed, state);
  if (state.hover >= 0) drawHover(ctx, placed, state);
}

function drawAxis(ctx, placed, axis, camera, theme) {
  const { ticks, name, size } = axis;
  const [a, b] = [[0, 0], [0, 0]];
  const end = outward(placed, ticks[ticks.length - 1].at, name, camera);
  const start = outward(placed, ticks[0].at, name, camera);
  project(camera, ...start, a);
  project(camera, ...end, b);
  const length = Math.hypot(b[0] - a[0], b[1] - a[1]);
  const away = awayFromBox(camera, placed, name, a, b);
  ctx.fillStyle = theme.quiet;
  ctx.strokeStyle = theme.line;
  ctx.lineWidth = 1;
  if (ticks.length > 1) {
    ctx.beginPath();
    ctx.moveTo(...a);
    ctx.lineTo(...b);
    ctx.stroke();
  }
  ctx.textAlign = away[0] < -0.5 ? 'right' : away[0] > 0.5 ? 'left' : 'center';
  ctx.textBaseline = 'middle';
  const every = tickSpacing(ticks.length, length, Math.abs(away[0]) > 0.5 ? 14 : 26);
  const pixel = [0, 0];
  for (let i = 0; i < ticks.length && length >= SHORTEST; i += every) {
    project(camera, ...outward(placed, ticks[i].at, name, camera), pixel);
    const text = String(ticks[i].index);
    ctx.fillText(text, tickAt(pixel[0] + away[0] * 8, ctx.textAlign, ctx.measureText(text).width, camera.width), pixel[1] + away[1] * 10);
  }
  const middle = [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
  const folded = name === 'dp' && placed.wrap < size ? `, rows of ${placed.wrap}` : '';
  title(ctx, `${NAMES[name]} (${size}${folded})`, middle, away, camera, theme, Math.max(a[1], b[1]));
}

/** Where a tick's text of `width` pixels is drawn: kept whole if it would be cut at a side of the canvas. */
export function tickAt(x, align, width, canvasWidth) {
  const [left, right] = { left: [0, width], right: [width, 0], center: [width / 2, width / 2] }[align];
  const isOut = x + right < 0 || x - left > canvasWidth;
  return isOut ? x : Math.max(left + 2, Math.min(canvasWidth - right - 2, x));
}

/** The title of an axis, kept inside the canvas; `lowest` is the axis' lower end. Upright axes have it rotated. */
function title(ctx, text, middle, away, camera, theme, lowest) {
  const isOut = (value, size) => value < -40 || value > size + 40;
  if (isOut(middle[0], camera.width) || isOut(middle[1], camera.height)) return;  // the axis is out of sight
  ctx.save();
  ctx.fillStyle = theme.text;
  const width = ctx.measureText(text).width;
  if (Math.abs(away[0]) > 0.85 && away[0] < 0) {
    ctx.translate(Math.max(8, middle[0] - 34), middle[1]);
    ctx.rotate(-Math.PI / 2);
    ctx.textAlign = 'center';
    ctx.fillText(text, 0, 0);
  } else {
    const { textAlign } = ctx;
    ctx.textAlign = 'left';
    ctx.fillText(text, ...titleAt(middle, away, textAlign, width, lowest, camera));
  }
  ctx.restore();
}

/** Where the left end of a title is drawn: below the axis' numbers where it would cover them, inside the canvas. */
export function titleAt(middle, away, align, width, lowest, camera) {
  const x = middle[0] + away[0] * 26;
  const left = align === 'left' ? x : align === 'right' ? x - width : x - width / 2;
  const inside = Math.min(camera.width - width - 4, Math.max(4, left));
  const isBelow = away[1] > 0.85 || inside !== left;
  return [inside, Math.min(camera.height - 8, Math.max(8, isBelow ? lowest + 24 : middle[1] + away[1] * 26))];
}

/** Position of a tick just outside the box, on a visible side, never behind the cubes. */
export function outward(placed, [x, y, z], name, { forward }) {
  const [w, , d] = placed.size;
  const [nearX, nearZ] = [forward[0] > 0 ? -1 : 1, forward[2] > 0 ? -1 : 1];
  if (name === 'dp') return [x, y - 0.5, nearZ * (d / 2 + 0.6)];
  if (name === 'pp' && placed.sideBySide) return [x, 0.5, -nearZ * (d / 2 + 0.4)];
  if (name === 'pp') return [-nearX * (w / 2 + 0.6), y, nearZ * d / 2];
  return [nearX * (w / 2 + (name === 'cp' ? 3 : 0.6)), y - 0.5, z];
}

/** Unit vector on screen, at right angles to the axis, away from the middle of the box. */
function awayFromBox(camera, placed, name, a, b) {
  const centre = project(camera, 0, 0, 0, [0, 0]);
  let normal = [-(b[1] - a[1]), b[0] - a[0]];
  if (Math.hypot(...normal) < 1) normal = name === 'pp' ? [-1, 0] : name === 'dp' ? [0, 1] : [1, 0];
  const size = Math.hypot(...normal);
  const side = (a[0] + b[0]) / 2 - centre[0];
  const below = (a[1] + b[1]) / 2 - centre[1];
  const sign = normal[0] * side + normal[1] * below >= 0 ? 1 : -1;
  return [sign * normal[0] / size, sign * normal[1] / size];
}

/** Number every 1st, 2nd, 4th, 8th, ... tick. */
export function tickSpacing(count, pixels, least) {
  let every = 1;
  while (every < count && pixels * every / Math.max(1, count - 1) < least) every *= 2;
  return every;
}

/** Lines through the selected rank: TP solid, PP dashed, DP dotted, EP in dashes and dots. */
function drawGroups(ctx, placed, { camera, theme, selected, places }) {
  const styles = { tp: [], pp: [7, 4], dp: [2, 4], ep: [7, 3, 2, 3] };
  for (const [axis, dash] of Object.entries(styles)) {
    const members = groupMembers(places, selected, axis);
    if (members.length < 2) continue;
    ctx.strokeStyle = theme[axis];
    ctx.lineWidth = 2;
    ctx.setLineDash(dash);
    ctx.beginPath();
    const pixel = [0, 0];
    members.forEach((i, number) => {
      project(camera, ...placed.positions.subarray(3 * i, 3 * i + 3), pixel);
      if (number === 0) ctx.moveTo(...pixel);
      else ctx.lineTo(...pixel);
    });
    ctx.stroke();
  }
  ctx.setLineDash([]);
}

/** Indices of the ranks that differ from the selected one in `axis` only, in order of the axis; of ep: its group's. */
export function groupMembers(places, selected, axis) {
  if (axis === 'ep' && !places.ep) return [];
  const others = axis === 'ep' ? ['ep_group'] : ['pp', 'dp', 'cp', 'tp'].filter((name) => name !== axis);
  const members = [];
  for (let i = 0; i < places.rank.length; i++) {
    if (others.every((name) => places[name][i] === places[name][selected])) members.push(i);
  }
  return members.sort((a, b) => places[axis][a] - places[axis][b]);
}

/** Rings that make the culprits (solid) and the selected rank (in the accent colour) visible among thousands of cubes. */
function drawBeacons(ctx, placed, { camera, theme, ranks, selected, culprits = [] }) {
  const culpritSet = new Set(culprits);
  const radius = Math.max(5, camera.scale);
  const rings = [];
  for (let i = 0; i < ranks.length; i++) {
    if (!culpritSet.has(ranks[i]) && i !== selected) continue;
    const at = project(camera, ...placed.positions.subarray(3 * i, 3 * i + 3), [0, 0]);
    const ring = { rank: ranks[i], at, radius };
    if (i === selected) rings.unshift(ring);
    else rings.push(ring);
    if (culpritSet.has(ranks[i])) {
      ctx.fillStyle = theme.fault;
      ctx.beginPath();
      ctx.arc(...at, Math.max(3.5, camera.scale * 0.55), 0, 7);
      ctx.fill();
    }
    if (camera.scale > 12) continue;  // the cube's own frame is visible
    ctx.strokeStyle = i === selected ? theme.link : theme.fault;
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    ctx.arc(...at, radius + 3, 0, 7);
    ctx.stroke();
  }
  ctx.font = `600 11px ${theme.font}`;
  for (const plate of platesOf(rings, (text) => ctx.measureText(text).width, camera)) drawPlate(ctx, plate, theme);
}

/** Edges of the cube under the pointer, on this canvas: hovering does not redraw the cubes. */
function drawHover(ctx, placed, { camera, theme, hover }) {
  const { forward } = camera;
  const [x, y, z] = placed.positions.subarray(3 * hover, 3 * hover + 3);
  const near = [0, 1, 2].map((axis) => (forward[axis] > 0 ? -0.5 : 0.5));
  const pixel = [0, 0];
  ctx.strokeStyle = theme.text;
  ctx.lineWidth = camera.scale < 10 ? 1 : 2;
  ctx.beginPath();
  for (let axis = 0; axis < 3; axis++) {
    if (Math.abs(forward[axis]) < 1e-3) continue;
    const [a, b] = [(axis + 1) % 3, (axis + 2) % 3];
    [[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]].forEach(([s, t], number) => {
      const corner = [0, 0, 0];
      corner[axis] = near[axis];
      corner[a] = s;
      corner[b] = t;
      project(camera, x + corner[0], y + corner[1], z + corner[2], pixel);
      if (number === 0) ctx.moveTo(...pixel);
      else ctx.lineTo(...pixel);
    });
    ctx.closePath();
  }
  ctx.stroke();
}

/** Centre of the plate of a ring: above it, and inside the canvas while the ring is in sight. */
export function plateAt([x, y], radius, half, camera) {
  const above = y - radius - 12;
  return [Math.min(camera.width - half - 2, Math.max(half + 2, x)), y > 0 ? Math.max(10, above) : above];
}

/**
 * The plates of rings, none over another: rings too close for plates of their own share one, which names the first.
 * @param {{rank: number, at: number[], radius: number}[]} rings the most important first
 * @param {(text: string) => number} widthOf pixels of a text
 */
export function platesOf(rings, widthOf, camera) {
  let plates = [];
  for (let i = 0; i < rings.length; i++) {
    let plate = plateOf(rings, i, 1, widthOf, camera);
    for (let other = plates.find(overlaps(plate)); other; other = plates.find(overlaps(plate))) {
      plates = plates.filter((kept) => kept !== other);
      plate = plateOf(rings, Math.min(other.first, plate.first), other.count + plate.count, widthOf, camera);
    }
    plates.push(plate);
  }
  return plates;
}

function plateOf(rings, first, count, widthOf, camera) {
  const { rank, at, radius } = rings[first];
  const text = `rank ${rank}${count > 1 ? ` and ${count - 1} more` : ''}`;
  const half = widthOf(text) / 2 + 4;
  return { first, count, text, half, at: plateAt(at, radius, half, camera) };
}

const overlaps = (plate) => ({ at, half }) =>
  Math.abs(at[0] - plate.at[0]) < half + plate.half && Math.abs(at[1] - plate.at[1]) < PLATE_HEIGHT;

/** Text with a background next to a ring, readable on any cube. */
function drawPlate(ctx, { text, half, at: [middle, y] }, theme) {
  ctx.fillStyle = theme.panel;
  ctx.globalAlpha = 0.85;
  ctx.fillRect(middle - half, y - PLATE_HEIGHT / 2, 2 * half, PLATE_HEIGHT);
  ctx.globalAlpha = 1;
  ctx.textAlign = 'center';
  ctx.textBaseline = 'middle';
  ctx.fillStyle = theme.text;
  ctx.fillText(text, middle, y);
}

/** Indices of the cubes in sight; none if they are too many to number. */
function inView(camera, positions) {
  const pixel = [0, 0];
  const visible = [];
  for (let i = 0; 3 * i < positions.length; i++) {
    project(camera, positions[3 * i], positions[3 * i + 1], positions[3 * i + 2], pixel);
    if (pixel[0] > 0 && pixel[0] < camera.width && pixel[1] > 0 && pixel[1] < camera.height) visible.push(i);
    if (visible.length > MOST_NUMBERED) return [];
  }
  return visible;
}

/** Rank numbers on a side of each cube that is not hidden behind others. */
function drawNumbers(ctx, placed, { camera, ranks, theme }) {
  const { positions } = placed;
  const pixel = [0, 0];
  const [fx, , fz] = camera.forward;
  const sides = [[0, 0, fz > 0 ? -0.5 : 0.5], [0, 0.5, 0], [fx > 0 ? -0.5 : 0.5, 0, 0]];
  if (camera.pitch > 0.8) sides.unshift(sides.splice(1, 1)[0]);
  ctx.textAlign = 'center';
  ctx.textBaseline = 'middle';
  ctx.font = `600 ${Math.min(16, Math.max(10, camera.scale / 4.2))}px ${theme.font}`;
  for (const i of inView(camera, positions)) {
    const [x, y, z] = positions.subarray(3 * i, 3 * i + 3);
    const isVisible = sides.some(([dx, dy, dz]) => {
      project(camera, x + dx, y + dy, z + dz, pixel);
      return pick(camera, positions, pixel[0], pixel[1]) === i;
    });
    if (!isVisible) continue;
    ctx.lineWidth = 3;
    ctx.strokeStyle = theme.panel;
    ctx.strokeText(String(ranks[i]), ...pixel);
    ctx.fillStyle = theme.text;
    ctx.fillText(String(ranks[i]), ...pixel);
  }
}
