/** Mouse, touch and keys of the timeline. Each action is a method of Timeline. */
import { laneAt, timeOf } from './lanes/geometry.mjs';

const CLICK_PX = 4;
const ZOOM_KEY = 0.7;
const PAN_KEY = 0.15;

/**
 * Listen on the canvas; with `everywhere` keys also work while no other element has the focus.
 * @returns {() => void} stops listening
 */
export function listen(timeline, actions, everywhere) {
  const stop = new AbortController();
  const on = (name, act, options = {}) => timeline.canvas.addEventListener(
    name, act, { signal: stop.signal, ...options });
  const pointOf = (event) => {
    const box = timeline.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  listenToWheel(timeline, on, pointOf);
  listenToPointers(timeline, on, pointOf);
  on('dblclick', (event) => {
    const { slice } = timeline.at(...pointOf(event));
    if (!slice) return;
    timeline.select(slice);
    timeline.setArea(null);
    timeline.fit();
  });
  on('keydown', (event) => pressKey(timeline, event, actions));
  if (everywhere) {
    document.addEventListener('keydown', (event) => {
      if (event.target === document.body) pressKey(timeline, event, actions);
    }, { signal: stop.signal });
  }
  return () => stop.abort();
}

function listenToWheel(timeline, on, pointOf) {
  on('wheel', (event) => {
    const unit = event.deltaMode === 1 ? 16 : 1;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      timeline.zoom(Math.exp(event.deltaY * unit * 0.0025), pointOf(event)[0]);
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      timeline.panPx(-(event.deltaX || event.deltaY) * unit);
    } else if (timeline.scrollBy(event.deltaY * unit)) {
      event.preventDefault();
    }
  }, { passive: false });
}

function listenToPointers(timeline, on, pointOf) {
  const down = new Map();  // pressed pointers: id -> [x, y]
  let drag = null;
  on('pointerdown', (event) => {
    if (event.button !== 0) return;
    timeline.canvas.focus({ preventScroll: true });
    timeline.canvas.setPointerCapture(event.pointerId);
    const [x, y] = pointOf(event);
    down.set(event.pointerId, [x, y]);
    const pans = event.shiftKey || event.pointerType === 'touch';
    drag = { x, y, lastX: x, lastY: y, pans, moved: false };
  });
  on('pointermove', (event) => {
    const [x, y] = pointOf(event);
    if (!down.has(event.pointerId)) {
      if (event.pointerType !== 'touch') hover(timeline, x, y);
      return;
    }
    if (down.size === 2) pinch(timeline, down, event.pointerId, x, y);
    down.set(event.pointerId, [x, y]);
    if (down.size > 1 || !drag) return;
    drag.moved ||= Math.hypot(x - drag.x, y - drag.y) > CLICK_PX;
    if (!drag.moved) return;
    timeline.emit('hover', { slice: null });
    if (drag.pans) {
      timeline.panPx(x - drag.lastX);
      if (timeline.scrollBy(drag.lastY - y) === false && event.pointerType === 'touch') {
        window.scrollBy(0, drag.lastY - y);
      }
    } else {
      markArea(timeline, drag, x, y);
    }
    [drag.lastX, drag.lastY] = [x, y];
  });
  const release = (event) => {
    if (!down.delete(event.pointerId) || !drag) return;
    if (event.type === 'pointerup' && !drag.moved) click(timeline, ...pointOf(event));
    else if (!drag.pans && drag.moved) timeline.emit('area', timeline.shown.area);
    if (down.size === 0) drag = null;
  };
  on('pointerup', release);
  on('pointercancel', release);
  on('pointerleave', () => hover(timeline, null, null));
}

function pinch(timeline, down, moved, x, y) {
  const [other] = [...down].filter(([id]) => id !== moved).map(([, point]) => point);
  const before = down.get(moved);
  const distanceBefore = Math.max(Math.abs(before[0] - other[0]), 10);
  const distance = Math.max(Math.abs(x - other[0]), 10);
  timeline.zoom(distanceBefore / distance, (x + other[0]) / 2);
  timeline.panPx((x - before[0]) / 2);
  timeline.scrollBy((before[1] - y) / 2);
}

function hover(timeline, x, y) {
  const target = x === null || !timeline.window ? { slice: null, rank: null, t: null } : timeline.at(x, y);
  timeline.shown.hover = target.slice;
  timeline.shown.cursor = x !== null && x >= timeline.geometry.left ? target.t : null;
  timeline.redraw();
  timeline.emit('hover', { ...target, x, y });
}

function click(timeline, x, y) {
  if (!timeline.window) return;
  const { slice, rank } = timeline.at(x, y);
  timeline.setArea(null);
  timeline.select(slice);
  // a click outside the lane's name is for the slice: the selected rank stays, as others are compared with it
  if (x >= timeline.geometry.left || rank === null || rank === timeline.app.view.rank) return;
  // keep the lanes: without them in the URL they would be chosen for the new rank
  const { ranks } = timeline.geometry;
  timeline.app.set(timeline.options.compact ? { rank } : { rank, ranks });
}

function markArea(timeline, drag, x, y) {
  const { geometry } = timeline;
  const lanes = [laneAt(geometry, drag.y), laneAt(geometry, Math.max(y, geometry.top))]
    .map((lane) => (lane < 0 ? geometry.ranks.length - 1 : lane)).sort((a, b) => a - b);
  const [begin, end] = [drag.x, x].map((edge) => timeOf(geometry, Math.max(edge, geometry.left)))
    .sort((a, b) => a - b);
  if (drag.y < geometry.top) lanes.splice(0, 2, 0, geometry.ranks.length - 1);
  timeline.shown.area = { begin, end, lanes };
  timeline.redraw();
}

function pressKey(timeline, event, actions) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const acts = {
    w: () => timeline.zoom(ZOOM_KEY), s: () => timeline.zoom(1 / ZOOM_KEY),
    a: () => timeline.pan(-PAN_KEY), d: () => timeline.pan(PAN_KEY),
    f: () => timeline.fit(), '.': () => timeline.step(1), ',': () => timeline.step(-1),
    ArrowRight: () => timeline.step(1), ArrowLeft: () => timeline.step(-1),
    ArrowDown: () => timeline.scrollBy(timeline.geometry.laneHeight),
    ArrowUp: () => timeline.scrollBy(-timeline.geometry.laneHeight),
    ...actions,
  };
  const act = acts[event.key] ?? (event.shiftKey ? null : acts[event.key.toLowerCase()]);
  if (!act) return;
  event.preventDefault();
  act();
}
