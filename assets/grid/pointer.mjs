/** Mouse and fingers on the grid: drag turns, shift + drag moves, wheel or two fingers zoom. */
import { pointOn } from '../lib/canvas/tooltip.mjs';

const CLICK_PIXELS = 4;

/**
 * @param {HTMLCanvasElement} canvas
 * @param {{isReady: () => boolean, point: Function, click: Function, turn: Function, move: Function,
 *   zoom: Function, open: Function}} does what the view does: point({x, y} | null), click({x, y}),
 *   turn(dx, dy), move(dx, dy), zoom(factor, {x, y}), open()
 */
export function useHands(canvas, does) {
  const pointers = new Map();
  let moved = 0;
  canvas.addEventListener('pointerdown', (event) => {
    if (!does.isReady() || event.button > 1) return;
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, pointOn(canvas, event));
    moved = 0;
  });
  canvas.addEventListener('pointermove', (event) => {
    if (!does.isReady()) return;
    const [before, now] = [pointers.get(event.pointerId), pointOn(canvas, event)];
    if (!before) {
      does.point(now);
      return;
    }
    moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    drag(pointers, event, before, now, does);
    pointers.set(event.pointerId, now);
  });
  canvas.addEventListener('pointerup', (event) => {
    const was = pointers.delete(event.pointerId);
    if (was && moved < CLICK_PIXELS) does.click(pointOn(canvas, event));
  });
  canvas.addEventListener('pointercancel', (event) => pointers.delete(event.pointerId));
  canvas.addEventListener('pointerleave', () => does.point(null));
  canvas.addEventListener('wheel', (event) => {
    // a page that scrolls past must not zoom: the grid takes the wheel when it was clicked, or with ctrl
    const isMeant = event.ctrlKey || event.metaKey || document.activeElement === canvas;
    if (!does.isReady() || !isMeant) return;
    event.preventDefault();
    does.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.03 : 0.0012)), pointOn(canvas, event));
  }, { passive: false });
  canvas.addEventListener('dblclick', () => does.open());
}

function drag(pointers, event, before, now, does) {
  const [dx, dy] = [now.x - before.x, now.y - before.y];
  if (pointers.size === 2) {
    const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
    const far = (p) => Math.max(8, Math.hypot(p.x - other.x, p.y - other.y));
    does.zoom(far(now) / far(before), other);
  } else if (event.shiftKey || event.buttons === 4) does.move(dx, dy);
  else does.turn(dx, dy);
}
