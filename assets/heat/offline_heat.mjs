/** The heat map of a shared file: drawn as on the live page, with hover and the colour scale. */
import { unpackArrays } from '../lib/arrays.mjs';
import { onTheme, readTheme } from '../lib/canvas/canvas_theme.mjs';
import { IN_NOISE, NO_DATA } from '../lib/canvas/colour.mjs';
import { showLegend } from '../lib/canvas/colour_legend.mjs';
import { stepRange } from '../lib/canvas/step_axis.mjs';
import { rolesIn } from '../lib/culprits.mjs';
import { make } from '../lib/dom.mjs';
import { formatValue } from '../lib/value_text.mjs';
import { cellImage, draw } from './draw.mjs';
import { blockAt, geometryOf, heatData } from './geometry.mjs';
import { pooledTo } from './pooling.mjs';

const ROW_PX = 26;
const LEAST_PX = 180;
const MOST_PX = 420;

/** HeatData of a base64 text that holds a binary answer of the route ranks/heat. */
export function heatOfText(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return heatData(unpackArrays(bytes.buffer), 'rank');
}

/** `5` or `5 to 8`. */
const span = ([low, high]) => (low === high ? String(low) : `${low} to ${high}`);

/** Sentence about a block. @param {import('./geometry.mjs').HeatData} data */
export function blockText(data, block) {
  const title = `rank ${span(block.ranks)}, step ${span(block.steps)}`;
  const isOne = block.ranks[0] === block.ranks[1] && block.steps[0] === block.steps[1];
  if (isOne && data.value) {
    const value = data.value[block.rows[0] * data.width + block.column];
    if (Number.isFinite(value)) return `${title}: ${formatValue(value, data.legend.metric)}`;
  }
  if (block.code === NO_DATA) return `${title}: not recorded`;
  if (block.code === IN_NOISE) return `${title}: within noise`;
  return `${title}: ${block.code % 2 ? 'more' : 'less'} than the peers`;
}

/** @param {HTMLElement} container @param {import('../lib/offline_app.mjs').OfflineApp} app */
export function mountHeat(container, app, { heat }) {
  const whole = heatOfText(heat);
  const { culprits, victims, steps: faultSteps } = rolesIn(app.roles, whole.width ? stepRange(whole) : null);
  let data = whole;
  const height = Math.min(MOST_PX, Math.max(LEAST_PX, whole.rank.length * ROW_PX + 44));
  const canvas = make('canvas', {
    role: 'img', 'aria-label': `Heat map of ${data.rank.length} ranks over ${data.width} columns of steps; the table has the means`,
  });
  const scale = make('div', { class: 'shared-scale' });
  const caption = document.getElementById('heat-note');
  canvas.style.height = `${height}px`;
  container.replaceChildren(canvas, scale);
  const context = canvas.getContext('2d', { willReadFrequently: true });
  let theme = readTheme();
  let image = cellImage(data, theme);
  let geometry = geometryOf(1, height);
  let hover = null;

  const redraw = () => {
    const ratio = window.devicePixelRatio || 1;
    const width = Math.max(1, container.clientWidth);
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    geometry = geometryOf(width, height);
    const fitting = pooledTo(whole, Math.floor(geometry.plot.h * ratio), Math.floor(geometry.plot.w * ratio));
    if (fitting.height !== data.height || fitting.width !== data.width) {
      data = fitting;
      image = cellImage(data, theme);
      hover = null;
    }
    draw(context, data, geometry, theme, { rank: app.view.rank, steps: app.view.steps, hover, culprits, victims, faultSteps }, image);
  };
  const applyTheme = () => {
    theme = readTheme();
    image = cellImage(data, theme);
    showLegend(scale, data.legend, theme);
    redraw();
  };
  const point = (event) => {
    const box = canvas.getBoundingClientRect();
    hover = blockAt(data, geometry, event.clientX - box.left, event.clientY - box.top);
    caption.textContent = hover ? blockText(data, hover) : '';
    redraw();
  };
  canvas.addEventListener('pointermove', point);
  canvas.addEventListener('pointerdown', (event) => {
    point(event);
    if (hover && hover.ranks[0] === hover.ranks[1]) app.set({ rank: hover.ranks[0] });
  });
  canvas.addEventListener('pointerleave', () => { hover = null; caption.textContent = ''; redraw(); });
  app.addEventListener('view', redraw);
  onTheme(applyTheme);
  new ResizeObserver(redraw).observe(container);
  applyTheme();
}
