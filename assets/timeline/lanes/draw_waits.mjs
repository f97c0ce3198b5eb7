/** Draws why a rank does not compute: waiting, schedule bubble, nothing recorded. Pure, as draw.mjs. */
import { patternOf } from '../../lib/canvas/kind_colours.mjs';
import { NO_ROLES } from '../../lib/culprits.mjs';
import { drawText, setFont, widthOf } from './draw_text.mjs';
import { isFaultWait } from './fault_time.mjs';
import { rectsOf, rowBox } from './geometry.mjs';
import { COMM, COMPUTE, IDLE, NO_REF, WAIT } from './tile.mjs';

/** The reasons of idle time; with `isOver` they cover the boxes below them. */
export function drawIdle(lanePart, isOver = false) {
  const { ctx, tile, theme, geometry, y } = lanePart;
  const box = rowBox(geometry.laneHeight, COMPUTE, geometry.onlyComm);
  for (const [i, x, width] of rectsOf(lanePart, IDLE)) {
    const kind = tile.meta.kinds[tile.arrays.kind[i]];
    if (isOver) {
      ctx.fillStyle = theme.ink.panel;
      ctx.fillRect(x, y + box.y, width, box.height);
    }
    if (kind === 'not_visible') {
      if (width < 3) continue;
      ctx.fillStyle = patternOf(ctx, theme, 'dots', theme.ink.faint);
      ctx.fillRect(x, y + box.y, width, box.height);
    } else if (kind === 'bubble') {
      ctx.globalAlpha = 0.75;
      ctx.fillStyle = theme.ink.bubble;
      ctx.fillRect(x, y + box.y, width, box.height);
      ctx.globalAlpha = 1;
    } else {
      drawWaiting(lanePart, i, x, width, box, kind === 'upstream', tile.levels[COMPUTE] > 1)();
    }
  }
}

/** Communication that only waits loses its fill; for whom it waits stands in the row of compute. */
export function drawWaits(lanePart) {
  const { ctx, tile, theme, geometry, y } = lanePart;
  const box = rowBox(geometry.laneHeight, COMM, geometry.onlyComm);
  for (const [i, x, width] of rectsOf(lanePart, WAIT)) {
    if (width < 2) continue;
    ctx.fillStyle = theme.ink.panel;
    ctx.globalAlpha = 0.72;
    ctx.fillRect(x, y + box.y + 1, width, box.height - 2);
    ctx.globalAlpha = 1;
  }
}

/** Colour of a wait that stands out: for a culprit, or for the selected rank; null for any other. */
function markOfWait({ tile, theme, shown, number }, i, rank, isUpstream) {
  const t = tile.from + tile.arrays.start[i];
  if (isFaultWait(tile, number, { rank, t, isUpstream }, shown.roles ?? NO_ROLES)) return theme.ink.fault;
  return rank === shown.rank ? theme.ink.link : null;
}

/** Draws a wait; returns what draws the rank it waits for, at the end of a box whose beginning has a name. */
function drawWaiting(lanePart, i, x, width, box, isUpstream, isAtEnd = false) {
  const { ctx, tile, theme, y } = lanePart;
  const ref = tile.arrays.ref[i];
  const rank = ref === NO_REF ? -1 : tile.arrays.wait_rank[ref];
  const mark = rank < 0 ? null : markOfWait(lanePart, i, rank, isUpstream);
  const colour = mark ?? theme.ink.quiet;
  const top = y + box.y + 0.5;
  const height = box.height - 1;
  if (isUpstream) {
    ctx.globalAlpha = 0.4;
    ctx.fillStyle = theme.ink.bubble;
    ctx.fillRect(x, top, width, height);
  }
  ctx.globalAlpha = mark ? 0.75 : isUpstream ? 0.4 : 0.6;
  const isNarrow = width < 3;  // hatching is a few dots there
  ctx.fillStyle = mark && isNarrow ? mark : patternOf(ctx, theme, 'back', colour);
  ctx.fillRect(x, top, width, height);
  ctx.globalAlpha = 1;
  if (isNarrow) return () => {};
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1;
  ctx.setLineDash(isUpstream ? [3, 3] : []);
  ctx.strokeRect(x + 0.5, top, Math.max(width - 1.5, 1), height);
  ctx.setLineDash([]);
  return () => {
    if (rank < 0 || width < 26 || height < 9) return;
    const text = `r${rank}`;
    const size = Math.min(11, height);
    setFont(ctx, theme, size);
    const room = widthOf(ctx, text, size) + 6;
    if (room > width - 2) return;
    const left = isAtEnd ? x + width - room - 3 : x + 1;
    ctx.fillStyle = theme.ink.panel;
    const plate = Math.min(height - 3, 16);  // the hatching stays visible around it
    ctx.fillRect(left + 1, top + (height - plate) / 2, room, plate);
    drawText(ctx, theme, text, left, top, room + 4, height, mark ?? theme.ink.text);
  };
}
