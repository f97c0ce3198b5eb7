/** Draws the axis, step borders, marks and labels around the lanes. Pure, as draw.mjs. */
import { niceStep, ticks } from '../../lib/canvas/time_scale.mjs';
import { NO_ROLES } from '../../lib/culprits.mjs';
import { isJudged } from './fault_time.mjs';
import { lanesInSight, laneTop, mostScroll, xOf } from './geometry.mjs';

const STEP_TEXT_PX = 34;
const STEP_LABEL_PX = 62;
const BORDER_FROM_PX = 7;

/** Time axis with steps above it, borders of steps through the lanes, marks of the user. */
export function drawAxes(ctx, tile, geometry, theme, shown) {
  const { left, top, width, height } = geometry;
  ctx.fillStyle = theme.ink.panel;
  ctx.fillRect(left, 0, width - left, top);
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, 0, width - left, height);
  ctx.clip();
  const hasSteps = tile && !(tile.meta.extent?.last_step < 0);  // else everything is before step 0
  const steps = hasSteps ? stepsShown(tile, geometry) : [];
  drawSteps(ctx, geometry, theme, steps);
  const origin = originOf(steps, geometry.window, tile?.meta.extent?.begin_ns);
  ctx.font = `10px ${theme.font}`;
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
  let occupiedTo = -Infinity;
  for (const { t, label } of tile ? ticks(geometry.window, width - left, origin) : []) {  // before a tile no time is known
    const x = Math.round(xOf(geometry, t)) + 0.5;
    ctx.fillStyle = theme.ink.line;
    ctx.fillRect(x, 17, 1, top - 17);
    ctx.globalAlpha = 0.35;
    ctx.fillRect(x, top, 1, height - top);
    ctx.globalAlpha = 1;
    ctx.fillStyle = theme.ink.quiet;
    const room = ctx.measureText(label).width + 3;
    const from = x + room > width ? x - room : x + 3;
    if (from >= occupiedTo) ctx.fillText(label, from, 26);
    occupiedTo = from + room;
  }
  for (const t of shown.marks ?? []) {
    const x = Math.round(xOf(geometry, t));
    ctx.fillStyle = theme.ink.warn;
    ctx.fillRect(x, 14, 1, height);
    ctx.fillRect(x - 3, 14, 7, 5);
  }
  if (shown.cursor !== undefined && shown.cursor !== null) {
    ctx.fillStyle = theme.ink.faint;
    ctx.globalAlpha = 0.6;
    ctx.fillRect(Math.round(xOf(geometry, shown.cursor)), 17, 1, height);
    ctx.globalAlpha = 1;
  }
  ctx.restore();
}

/**
 * Origin of the axis: the begin of the first step in sight, else of the step around the window, else of
 * the record.
 */
export function originOf(steps, window, recorded = window.begin) {
  const begun = steps.find((step) => step.begin >= window.begin && step.begin < window.end);
  const around = steps.find((step) => step.begin <= window.begin && step.end > window.begin);
  return (begun ?? around)?.begin ?? recorded;
}

/** Borders of each lane's steps: ranks may begin a step at different times. */
export function drawStepBorders(ctx, tile, geometry, theme) {
  const { step_lane: lanes, step_begin: begins } = tile.arrays;
  const [first, last] = lanesInSight(geometry);
  const laneOfNumber = new Map();
  for (let lane = first; lane <= last; lane++) laneOfNumber.set(tile.laneOfRank.get(geometry.ranks[lane]), lane);
  const { step_end: ends } = tile.arrays;
  ctx.fillStyle = theme.ink.text;
  ctx.globalAlpha = 0.6;
  for (let i = 0; i < lanes.length; i++) {
    const lane = laneOfNumber.get(lanes[i]);
    if (lane === undefined) continue;
    const x = xOf(geometry, tile.from + begins[i]);
    if (x < geometry.left || x > geometry.width) continue;
    if (xOf(geometry, tile.from + ends[i]) - x < BORDER_FROM_PX) continue;
    ctx.fillRect(Math.round(x), laneTop(geometry, lane) - 2, 1, geometry.laneHeight);
  }
  ctx.globalAlpha = 1;
}

/** Steps of the first lane in sight that has any: number, begin and end. */
export function stepsShown(tile, geometry) {
  const { step, step_lane: lanes, step_begin: begins, step_end: ends } = tile.arrays;
  const [first, last] = lanesInSight(geometry);
  for (let lane = first; lane <= last; lane++) {
    const number = tile.laneOfRank.get(geometry.ranks[lane]);
    const steps = [];
    for (let i = 0; i < step.length; i++) {
      if (lanes[i] === number) steps.push({ step: step[i], begin: tile.from + begins[i], end: tile.from + ends[i] });
    }
    if (steps.length) return steps.sort((a, b) => a.begin - b.begin);
  }
  return [];
}

/** Label every 1st, 2nd, 5th, 10th, ... step, so that labels do not overlap. Pure. */
export function labelEvery(steps, geometry) {
  const first = steps[0];
  const last = steps[steps.length - 1];
  if (!first || last.step === first.step) return 1;
  const px = (xOf(geometry, last.begin) - xOf(geometry, first.begin)) / (last.step - first.step);
  return Math.max(niceStep(STEP_LABEL_PX / Math.max(px, 1e-6)), 1);
}

function drawSteps(ctx, geometry, theme, steps) {
  ctx.font = `600 11px ${theme.font}`;
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
  const every = labelEvery(steps, geometry);
  for (const { step, begin, end } of steps) {
    const x = xOf(geometry, begin);
    const past = xOf(geometry, end);
    if (past < geometry.left || x > geometry.width) continue;
    if (every > 1 && step % every !== 0) continue;
    ctx.fillStyle = theme.ink.quiet;
    ctx.globalAlpha = 0.55;
    ctx.fillRect(Math.round(x), 2, 1, geometry.top - 2);
    ctx.globalAlpha = 1;
    const from = Math.max(x, geometry.left) + 5;
    const text = step < 0 ? 'before step 0' : `step ${step}`;
    const fits = from + ctx.measureText(text).width <= geometry.width;
    if (fits && (every > 1 || Math.min(past, geometry.width) - from > STEP_TEXT_PX)) {
      ctx.fillStyle = theme.ink.text;
      ctx.fillText(text, from, 9);
    }
  }
}

/** Rank and coordinates of each lane, and a thin bar that shows which lanes are in sight. */
export function drawLabels(ctx, tile, geometry, theme, shown) {
  const { left, top, height, laneHeight } = geometry;
  ctx.fillStyle = theme.ink.panel;
  ctx.fillRect(0, 0, left, height);
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, top - 1, left, height - top);
  ctx.clip();
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
  const [first, last] = lanesInSight(geometry);
  for (let lane = first; lane <= last; lane++) {
    const rank = geometry.ranks[lane];
    const y = laneTop(geometry, lane);
    const isSelected = rank === shown.rank;
    if (isSelected) {
      ctx.fillStyle = theme.ink.raised;
      ctx.fillRect(0, y - 2, left, laneHeight);
      ctx.strokeStyle = theme.ink.link;
      ctx.lineWidth = 1;
      ctx.strokeRect(0.5, y - 1.5, left, laneHeight - 1);
    }
    if (tile && isJudged(tile, tile.laneOfRank.get(rank), rank, shown.roles ?? NO_ROLES, geometry.window)) {
      ctx.fillStyle = theme.ink.fault;
      ctx.fillRect(0, y - 2, 4, laneHeight - 1);
    }
    drawLabel(ctx, tile, theme, rank, y, geometry, isSelected, shown);
  }
  ctx.restore();
  const most = mostScroll(geometry);
  if (most > 0) {
    const room = height - top;
    const size = Math.max(room * room / (room + most), 18);
    ctx.fillStyle = theme.ink.faint;
    ctx.fillRect(geometry.width - 4, top + (room - size) * geometry.scroll / most, 3, size);
  }
}

/** The leading words of a text that fit. */
function fittingWords(ctx, text, free) {
  const words = text.split(' ');
  while (words.length && ctx.measureText(words.join(' ')).width > free) words.pop();
  return words.join(' ');
}

function drawLabel(ctx, tile, theme, rank, y, geometry, isSelected, shown) {
  const known = tile?.meta.lanes[tile.laneOfRank.get(rank)];
  const [name, ...coordinates] = (known?.label ?? `r${rank}`).split(' ');
  const middle = y + (geometry.laneHeight - 5) / 2;
  const twoLines = geometry.laneHeight >= 34 && coordinates.length > 0;
  ctx.font = `${isSelected ? 700 : 600} 12px ${theme.font}`;
  ctx.fillStyle = theme.ink.text;
  const pin = shown.pinned?.has(rank) ? '\u25B8 ' : '';
  ctx.fillText(pin + name, 10, twoLines ? middle - 7 : middle);
  const room = ctx.measureText(`${pin}${name} `).width + 10;
  ctx.font = `10px ${theme.font}`;
  ctx.fillStyle = theme.ink.quiet;
  const isUnaligned = known && !known.aligned && tile.meta.clock === 'absolute';
  const details = `${coordinates.join(' ')}${isUnaligned ? ' clock?' : ''}`;
  const free = geometry.left - (twoLines ? 10 : room + 2);
  const text = fittingWords(ctx, details, free);
  if (twoLines) ctx.fillText(text, 10, middle + 7);
  else if (room < geometry.left - 20) ctx.fillText(text, room + 2, middle);
}
