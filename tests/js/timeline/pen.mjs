/** A 2D context without a screen: it keeps what is filled and stroked, with its colour and place. */

export const THEME = {
  kind: { forward: 'forward', tp_comm: '#00FF00' }, font: 'sans-serif',
  ink: Object.fromEntries(['text', 'quiet', 'faint', 'line', 'panel', 'raised', 'page', 'fault', 'link', 'bubble', 'warn']
    .map((name) => [name, `ink-${name}`])),
};

/** @returns {{ctx: Object, painted: {act: string, colour: string, x: number, y: number, w: number, h: number}[]}} */
export function makePen() {
  const painted = [];
  const state = { fillStyle: '', strokeStyle: '', font: '' };
  const keep = (act, name) => (x, y, w, h) => painted.push({ act, colour: state[name], x, y, w, h });
  const cell = { getContext: () => new Proxy({}, { get: (target, key) => target[key] ?? (() => {}), set: (target, key, value) => { target[key] = value; return true; } }) };
  const own = {
    canvas: { ownerDocument: { createElement: () => { const made = cell.getContext(); return { getContext: () => made, pen: made }; } } },
    fillRect: keep('fill', 'fillStyle'), strokeRect: keep('stroke', 'strokeStyle'),
    fillText: (text, x, y) => painted.push({ act: 'text', colour: state.fillStyle, text, x, y, w: 0, h: 0 }),
    measureText: (text) => ({ width: 6 * text.length }),
    createPattern: (canvas) => `pattern ${canvas.pen.strokeStyle}`,
  };
  const ctx = new Proxy(state, { get: (target, key) => own[key] ?? target[key] ?? (() => {}) });
  return { ctx, painted };
}
