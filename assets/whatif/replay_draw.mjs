/** Draws a replayed step: the real lanes, below them the ideal ones, on one time axis. */
import { patternOf } from '../lib/canvas/kind_colours.mjs';
import { ticks } from '../lib/canvas/time_scale.mjs';
import { cellRanks, seconds } from './messages.mjs';
import { pieces, rowBox, WAITING } from './replay_lanes.mjs';

const TITLES = { real: 'as it ran, replayed', ideal: 'without stragglers' };

/** x of a time. @param {{begin: number, end: number}} window s */
export const xOf = (layout, window, time) => layout.left
  + (time - window.begin) * (layout.width - layout.left) / (window.end - window.begin);

export const timeOf = (layout, window, x) => window.begin
  + (x - layout.left) * (window.end - window.begin) / Math.max(1, layout.width - layout.left);

/** @returns {{real: import('./replay_lanes.mjs').Piece[], ideal: import('./replay_lanes.mjs').Piece[]}} what was drawn */
export function draw(ctx, ops, layout, window, theme) {
  ctx.clearRect(0, 0, layout.width, layout.height);
  ctx.font = `11px ${theme.font}`;
  axis(ctx, layout, window, theme);
  const drawn = {};
  for (const world of ['real', 'ideal']) {
    labels(ctx, ops, layout, world, theme);
    drawn[world] = pieces(ops, world, window, layout.width - layout.left);
    ctx.save();
    ctx.beginPath();
    ctx.rect(layout.left, 0, layout.width - layout.left, layout.height);
    ctx.clip();
    for (const piece of drawn[world]) drawPiece(ctx, piece, layout, window, world, theme);
    ctx.restore();
  }
  ends(ctx, ops, layout, window, theme);
  return drawn;
}

function axis(ctx, layout, window, theme) {
  ctx.textBaseline = 'top';
  ctx.textAlign = 'left';
  const span = { begin: window.begin * 1e9, end: window.end * 1e9 };
  for (const { t, label } of ticks(span, layout.width - layout.left, 0)) {
    const x = Math.round(xOf(layout, window, t / 1e9));
    if (x < layout.left) continue;
    ctx.fillStyle = theme.ink.line;
    ctx.fillRect(x, layout.axis - 4, 1, layout.height);
    ctx.fillStyle = theme.ink.quiet;
    if (x < layout.width - 40) ctx.fillText(label, x + 3, 3);
  }
}

function labels(ctx, ops, layout, world, theme) {
  ctx.fillStyle = theme.ink.text;
  ctx.textAlign = 'left';
  ctx.textBaseline = 'middle';
  ctx.fillText(TITLES[world], 0, layout.tops[world] - 9);
  ctx.fillStyle = theme.ink.quiet;
  for (const [lane, { stage, ranks }] of ops.meta.lanes.entries()) {
    const y = layout.tops[world] + (lane + 0.5) * layout.laneHeight - 2;
    const who = `rank${ranks.length > 1 ? 's' : ''} ${cellRanks(ranks)}`;
    ctx.fillText(layout.left > 100 ? `stage ${stage} · ${who}` : who, 0, y, layout.left - 6);
  }
}

function drawPiece(ctx, piece, layout, window, world, theme) {
  const box = rowBox(layout, world, piece.lane, piece.row);
  const x = xOf(layout, window, piece.begin);
  const width = Math.max(1, xOf(layout, window, piece.end) - x - (layout.laneHeight > 16 ? 0.5 : 0));
  ctx.fillStyle = piece.kind === WAITING ? theme.ink.bubble : theme.kind[piece.kind];
  ctx.fillRect(x, box.y, width, box.h);
  if (piece.row === 1 && piece.kind !== WAITING && width > 5) {
    ctx.fillStyle = patternOf(ctx, theme, 'hatch', theme.ink.panel);
    ctx.fillRect(x, box.y, width, box.h);
  }
}

/** Lines where the step ends in both worlds, across both blocks. */
function ends(ctx, { meta }, layout, window, theme) {
  ctx.textBaseline = 'middle';
  for (const [world, time] of [['real', meta.T_s], ['ideal', meta.T_ideal_s]]) {
    const x = xOf(layout, window, time);
    if (x < layout.left || x > layout.width + 1) continue;
    ctx.fillStyle = world === 'real' ? theme.ink.text : theme.ink.link;
    ctx.fillRect(Math.min(Math.round(x), layout.width - 1.5), layout.axis, 1.5, layout.height);
    ctx.textAlign = x > layout.width - 120 ? 'right' : 'left';
    ctx.fillText(`takes ${seconds(time)}`, x + (ctx.textAlign === 'right' ? -5 : 5), layout.tops[world] - 9);
  }
}
