/** Mouse and touch on the grid: drag turns, shift + drag moves, wheel or two fingers zoom. */
import { pointOn } from '../lib/canvas/tooltip.mjs';

const CLICK_PIXELS = 4;

/**
 * @param {HTMLCanvasElement} canvas
 * @param {{isReady: () => boolean, point: Function, click: Function, turn: Function, move: Function,
 *   zoom: Function, open: Function}} actions of the view: point({x, y} | null), click({x, y}),
 *   turn(dx, dy), move(dx, dy), zoom(factor, {x, y}), open()
 */
export function listenToPointer(canvas, actions) {
  const pointers = new Map();
  let movedPx = 0;
  canvas.addEventListener('pointerdown', (event) => {
    if (!actions.isReady() || event.button > 1) return;
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, pointOn(canvas, event));
    movedPx = 0;
  });
  canvas.addEventListener('pointermove', (event) => {
    if (!actions.isReady()) return;
    const [before, now] = [pointers.get(event.pointerId), pointOn(canvas, event)];
    if (!before) {
      actions.point(now);
      return;
    }
    movedPx += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    drag(pointers, event, before, now, actions);
    pointers.set(event.pointerId, now);
  });
  canvas.addEventListener('pointerup', (event) => {
    const wasDown = pointers.delete(event.pointerId);
    if (wasDown && movedPx < CLICK_PIXELS) actions.click(pointOn(canvas, event));
  });
  canvas.addEventListener('pointercancel', (event) => pointers.delete(event.pointerId));
  canvas.addEventListener('pointerleave', () => actions.point(null));
  canvas.addEventListener('wheel', (event) => {
    // scrolling past must not zoom: the grid takes the wheel only after a click on it, or with ctrl
    const isForGrid = event.ctrlKey || event.metaKey || document.activeElement === canvas;
    if (!actions.isReady() || !isForGrid) return;
    event.preventDefault();
    actions.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.03 : 0.0012)), pointOn(canvas, event));
  }, { passive: false });
  canvas.addEventListener('dblclick', () => actions.open());
}

function drag(pointers, event, before, now, actions) {
  const [dx, dy] = [now.x - before.x, now.y - before.y];
  if (pointers.size === 2) {
    const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
    const distance = (p) => Math.max(8, Math.hypot(p.x - other.x, p.y - other.y));
    actions.zoom(distance(now) / distance(before), other);
  } else if (event.shiftKey || event.buttons === 4) actions.move(dx, dy);
  else actions.turn(dx, dy);
}
