/** Where a tip stands: beside the pointer, inside of the stage. */
export function placeTip(tip, point, width, height, room) {
  const flip = point.x > width - 230;
  tip.style.left = flip ? 'auto' : `${point.x + 14}px`;
  tip.style.right = flip ? `${width - point.x + 14}px` : 'auto';
  tip.style.top = `${Math.max(0, Math.min(point.y + 12, height - room))}px`;
}

/** Pointer of an event on a canvas, in CSS pixels. */
export function pointOn(canvas, event) {
  const box = canvas.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}
