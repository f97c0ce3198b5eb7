/** Texts in boxes, cut to the room there is. Pure, as draw.mjs. */
import { cutInMiddle } from '../../lib/value_text.mjs';

/** Left-aligned text, cut to a box; nothing if even a part would not be readable. `back` covers a pattern below it. */
export function drawText(ctx, theme, text, x, y, width, height, colour, back = null) {
  const size = Math.min(11, Math.floor(height));
  if (size < 8) return;
  setFont(ctx, theme, size);
  const shown = fitting(ctx, text, size, width - 6);
  if (back && shown) {
    ctx.fillStyle = back;
    ctx.fillRect(x + 2, y + 1, Math.min(widthOf(ctx, shown, size) + 4, width - 3), height - 2);
  }
  ctx.fillStyle = colour;
  ctx.fillText(shown, x + 4, y + height / 2 + 0.5);
}

export function setFont(ctx, theme, size) {
  const font = `${size}px ${theme.font}`;
  if (ctx.font !== font) ctx.font = font;
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
}

const widths = new Map();  // cached: measuring takes longer than drawing

export function widthOf(ctx, text, size) {
  const key = `${size} ${text}`;
  if (!widths.has(key)) {
    if (widths.size > 5000) widths.clear();
    widths.set(key, ctx.measureText(text).width);
  }
  return widths.get(key);
}

/** The part of a text that fits, estimated from its mean letter width: clipping each box would be slow. Empty rather than one or two letters. */
function fitting(ctx, text, size, room) {
  const width = widthOf(ctx, text, size);
  if (width <= room) return text;
  return cutInMiddle(text, Math.floor(text.length * room / width) - 1);
}
