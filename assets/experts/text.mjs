/** Sentences and numbers of the page Experts. Pure. */
import { stepsText } from '../lib/value_text.mjs';

/** A load, 1 being the mean of the layer: '1.42 x', '0.031 x'. */
export const times = (load) => (Number.isFinite(load) ? `${load >= 0.1 || load === 0 ? load.toFixed(2) : load.toPrecision(2)} x` : 'not recorded');

/** '1,240', 'unknown'. */
export const whole = (value) => (value >= 0 ? Math.round(value).toLocaleString('en') : 'unknown');

/** A share of 0 to 1: '34 %', '2.1 %', '0.04 %'. */
export function percent(ratio) {
  const value = 100 * ratio;
  return `${value === 0 || value >= 10 ? value.toFixed(0) : value >= 0.1 ? value.toFixed(1) : value.toPrecision(1)} %`;
}

/** Milliseconds: '80.3 ms', '0.031 ms'. */
export const milliseconds = (value) => (value === null || value === undefined ? 'not recorded'
  : `${value >= 100 ? value.toFixed(0) : value >= 1 ? value.toFixed(1) : value.toPrecision(2)} ms`);

/** 'layer 3', with the router's name where the layer has several, or that alone where it has no number; `isShort`: for an axis. */
export function layerText({ layer, name, num_routers: count = 1 }, isShort = false) {
  if (layer < 0) return name || 'no layer';
  if (isShort) return String(layer);
  return count > 1 ? `layer ${layer} (${name})` : `layer ${layer}`;
}

/** How the view names an expert of a layer: layer, number, and router where there are several. */
export const expertOf = ({ layer, router, num_routers: count = 1 }, expert) => (count > 1 ? [layer, expert, router] : [layer, expert]);

/** Row of the layer of an expert that the view names; -1 none. */
export const rowOf = (layers, [layer, , router = 0]) => layers.findIndex((one) => one.layer === layer && (one.router ?? 0) === router);

/** Lines of the tooltip of an expert. */
export function cellLines(data, { row, expert }) {
  const about = data.layers[row];
  const at = row * data.experts + expert;
  const tokens = data.tokens[at];
  const lines = [
    `${layerText(about)}, expert ${expert}: ${times(data.load[at])} the mean`,
    `${whole(tokens)} tokens, ${percent(tokens / Math.max(about.choices, 1))} of the layer's choices`,
    holderText(data.holder[at], data.holders[at]),
  ];
  lines.push(about.dropped < 0 ? 'dropped tokens of the layer: unknown' : `dropped in the layer: ${whole(about.dropped)} choices`);
  if (Number.isFinite(data.bias?.[at])) lines.push(`bias ${signed(data.bias[at])} in the newest of the steps`);
  if (about.aux_loss !== null && about.aux_loss !== undefined) lines.push(`auxiliary loss of the layer ${Number(about.aux_loss.toPrecision(3))}`);
  return lines;
}

const signed = (value) => `${value > 0 ? '+' : ''}${Number(value.toPrecision(3))}`;

/** Where an expert lies. */
export function holderText(rank, count) {
  if (rank < 0) return 'on which rank it lies was not recorded';
  return count > 1 ? `on rank ${rank} and ${(count - 1).toLocaleString('en')} more` : `on rank ${rank}`;
}

/** What the map shows. */
export function aboutMap({ layers, experts, steps, stride }) {
  const count = `${layers.length} layer${layers.length === 1 ? '' : 's'} x ${experts} experts`;
  return [count, stepsText(steps), part(stride)].filter(Boolean).join(', ');
}

const part = (stride) => (stride > 1 ? `of one in ${stride} ranks` : '');

/** What the lines over steps show. */
export function seriesAbout({ window: [first, last], stride }) {
  const about = `MaxVio: most tokens of an expert / mean of the layer, less 1; ${stepsText([first, last])}`;
  return [about, part(stride)].filter(Boolean).join(', ');
}

/** The furthest experts, those with the strongest colours first. @returns {{row: number, expert: number, at: number}[]} */
export function furthest(data, most) {
  const found = [];
  data.code.forEach((code, at) => { if (code >= 2) found.push(at); });
  const strength = (at) => data.code[at] >> 1;
  found.sort((a, b) => strength(b) - strength(a) || Math.abs(data.load[b] - 1) - Math.abs(data.load[a] - 1) || a - b);
  return found.slice(0, most).map((at) => ({ row: Math.floor(at / data.experts), expert: at % data.experts, at }));
}

/** Lines of the tooltip of a step. `worst_row`: which of the layers is the worst. */
export function stepLines({ step, worst, worst_row: row, middle, fair }, layers, at) {
  return [
    `step ${step[at]}`,
    `worst layer: MaxVio ${worst[at].toFixed(2)} (${layerText(layers[row[at]])})`,
    `median layer: MaxVio ${middle[at].toFixed(2)}`,
    `a fair router stays below ${fair[at].toFixed(2)}`,
  ];
}

/** Lines of the tooltip of one expert's step. */
export function expertLines({ step, load, tokens, fair }, at) {
  return [
    `step ${step[at]}: ${times(load[at])} the mean`, `${whole(tokens[at])} tokens`,
    `fair router: ${times(Math.max(1 - fair[at], 0))} to ${times(1 + fair[at])}`,
  ];
}

/** 'the first 128 of 4,096 ranks', or nothing where all are there. */
export const shownOf = (shown, all, what) => (shown < all ? `the first ${shown} of ${all.toLocaleString('en')} ${what}` : '');

/** Why there is no balance of ranks. */
export const balanceText = (layers) => (layers.length
  ? 'Which ranks hold which experts was not recorded, or each rank holds all of them.' : 'No token was routed in these steps.');
