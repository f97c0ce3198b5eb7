/** Put a visible tooltip next to the pointer, inside its stage. */
export function placeTip(tip, point, width, height) {
  const flip = point.x + 14 + tip.offsetWidth > width;
  tip.style.left = `${Math.max(0, flip ? point.x - 14 - tip.offsetWidth : point.x + 14)}px`;
  tip.style.top = `${Math.max(0, Math.min(point.y + 12, height - tip.offsetHeight))}px`;
}

/** Position of a pointer event on a canvas, in CSS pixels. */
export function pointOn(canvas, event) {
  const box = canvas.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}
