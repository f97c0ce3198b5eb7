/** Colours, labels and patterns of the kinds of spans; colours come from the page's CSS variables. */

export const COLOUR_OF_KIND = {
  forward: '--forward', backward: '--backward', wgrad: '--wgrad', optimizer: '--optimizer',
  kernel: '--kernel', tp_comm: '--tp', pp_comm: '--pp', dp_comm: '--dp', ep_comm: '--ep', cp_comm: '--cp',
  other_comm: '--other-comm', data_fetch: '--data', data_wait: '--data', checkpoint: '--checkpoint',
  evaluation: '--evaluation', gc: '--gc', host: '--host', memcpy: '--memcpy',
};

export const LABEL_OF_KIND = {
  forward: 'forward', backward: 'backward', wgrad: 'weight gradient', optimizer: 'optimizer',
  kernel: 'kernels', tp_comm: 'TP comm', pp_comm: 'PP send/recv', dp_comm: 'DP comm',
  ep_comm: 'EP comm', cp_comm: 'CP comm', other_comm: 'other comm', data_fetch: 'data', data_wait: 'data wait',
  checkpoint: 'checkpoint', evaluation: 'evaluation', gc: 'garbage collection', host: 'host', memcpy: 'copies',
  waiting: 'waiting within the stage', upstream: 'waiting across stages', bubble: 'schedule bubble',
  not_visible: 'not visible',
};
const WITHOUT_PIPELINE = { waiting: 'waiting for a rank', bubble: 'waiting, no late rank' };

/** What a kind is called; without a pipeline there are no stages and no schedule. @param {{has_pipeline: ?boolean}} meta of a tile */
export const labelOf = (kind, { has_pipeline: hasPipeline } = {}) => (
  (hasPipeline === false && WITHOUT_PIPELINE[kind]) || LABEL_OF_KIND[kind] || kind);

/**
 * @typedef {Object} Theme
 * @property {Object<string, string>} kind colour of each kind
 * @property {Object<string, string>} ink text, quiet, faint, line, panel, page, fault, link, bubble
 * @property {string} font
 */

/** @param {Element} element @returns {Theme} */
export function readTheme(element) {
  const style = getComputedStyle(element);
  const value = (name) => style.getPropertyValue(name).trim();
  const kind = {};
  for (const [name, variable] of Object.entries(COLOUR_OF_KIND)) kind[name] = value(variable) || '#888888';
  const ink = {};
  for (const name of ['text', 'quiet', 'faint', 'line', 'panel', 'raised', 'page', 'fault', 'link', 'bubble', 'warn']) {
    ink[name] = value(`--${name}`) || '#888888';
  }
  return { kind, ink, font: style.fontFamily || 'sans-serif' };
}

const patterns = new WeakMap();

/**
 * A pattern made once per theme: hatch (communication), bubble, waiting, upstream, not_visible.
 * @param {CanvasRenderingContext2D} ctx @param {Theme} theme @param {string} name
 */
export function patternOf(ctx, theme, name, colour) {
  if (!patterns.has(theme)) patterns.set(theme, new Map());
  const ofTheme = patterns.get(theme);
  const key = `${name} ${colour}`;
  if (!ofTheme.has(key)) ofTheme.set(key, makePattern(ctx, name, colour));
  return ofTheme.get(key);
}

function makePattern(ctx, name, colour) {
  const size = 6;
  const cell = ctx.canvas.ownerDocument.createElement('canvas');
  cell.width = size;
  cell.height = size;
  const pen = cell.getContext('2d');
  pen.strokeStyle = colour;
  pen.fillStyle = colour;
  pen.lineWidth = 1;
  if (name === 'dots') {
    pen.fillRect(1, 1, 1, 1);
    pen.fillRect(4, 4, 1, 1);
  } else {
    const lines = name === 'hatch' ? [[0, size, size, 0]] : [[0, 0, size, size]];
    for (const [x0, y0, x1, y1] of lines) {
      for (const shift of [-size, 0, size]) {
        pen.beginPath();
        pen.moveTo(x0 + shift, y0);
        pen.lineTo(x1 + shift, y1);
        pen.stroke();
      }
    }
  }
  return ctx.createPattern(cell, 'repeat');
}
