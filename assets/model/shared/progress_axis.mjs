/**
 * Positions of steps on an axis of time or of tokens. Pure.
 *
 * On the axis of steps, `columns` has the edges of the drawn columns in recorded steps
 * (lib/canvas/step_axis.mjs). On another axis the edges are in the axis' unit, counted from the first, and:
 *
 * @typedef {Object} Placed
 * @property {{name: 'time'|'tokens', from_step: number}} axis
 * @property {ArrayLike<number>} place middle of each column: seconds since the first step began, or tokens so far
 * @property {number} from position of the first edge
 */
import { stepCount, xOfColumn, xOfStep } from '../../lib/canvas/step_axis.mjs';
import { roundTicks } from '../../lib/canvas/ticks.mjs';

const UNITS = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's'], [1e-3, 'ms']];
const SIZES = [[1e12, 'T'], [1e9, 'B'], [1e6, 'M'], [1e3, 'K']];

/** Data of steps, positioned on the axis of the answer if it has one. */
export function placed(data, axis, place) {
  if (!axis || !place.length) return { ...data, axis: null };
  const edges = edgesAround(place);
  if (!(edges[edges.length - 1] > edges[0])) return { ...data, axis: null };
  return { ...data, axis, place, from: edges[0], columns: edges.map((edge) => edge - edges[0]) };
}

/** Edges halfway between neighbours; the first and last column are symmetric around their middle. */
function edgesAround(place) {
  const last = place.length - 1;
  if (last < 1) return [place[0] - 0.5, place[0] + 0.5];
  const inner = Array.from({ length: last }, (_, i) => (place[i] + place[i + 1]) / 2);
  return [2 * place[0] - inner[0], ...inner, 2 * place[last] - inner[last - 1]];
}

/** x of a position on the axis of the data. */
export function xOfPlace(data, geometry, place) {
  return xOfColumn(data, geometry, place - data.from);
}

/** x of the middle of a column. */
export function xOfMiddle(data, geometry, column) {
  if (data.axis) return xOfPlace(data, geometry, data.place[column]);
  return (xOfColumn(data, geometry, data.columns[column]) + xOfColumn(data, geometry, data.columns[column + 1])) / 2;
}

/** x of the middle of a step; on an axis of time or tokens, of the column that contains the step. */
export function xOfStepMiddle(data, geometry, step) {
  if (!data.axis) return xOfStep(data, geometry, step) + geometry.plot.w / stepCount(data) / 2;
  let column = 0;
  while (column < data.width - 1 && data.lastStep[column] < step) column++;
  return xOfMiddle(data, geometry, column);
}

/** Whether a column stands for more than one step. */
export const isPooled = (data, column) => data.lastStep[column] > data.firstStep[column];

/** "90 s" as "1.5 min". @param {number} unit s */
const inUnit = (value, [unit, name]) => `${Number((value / unit).toPrecision(6))} ${name}`;

/** Labels along the axis. @returns {{x: number, text: string}[]} */
export function placeTicks(data, geometry, most) {
  const [from, to] = [data.from, data.from + stepCount(data)];
  if (data.axis.name === 'tokens') {
    return roundTicks(from, to, most).filter((count) => count >= 0)
      .map((count) => ({ x: xOfPlace(data, geometry, count), text: tokensText(count) }));
  }
  const unit = UNITS.find(([size]) => to >= 2 * size) ?? UNITS[UNITS.length - 1];
  return roundTicks(from / unit[0], to / unit[0], most).filter((value) => value >= 0)
    .map((value) => ({ x: xOfPlace(data, geometry, value * unit[0]), text: inUnit(value * unit[0], unit) }));
}

/** "1.5B" */
export function tokensText(count) {
  const [size, letter] = SIZES.find(([least]) => count >= least) ?? [1, ''];
  return `${Number((count / size).toPrecision(4))}${letter}`;
}

/** Title of the axis. */
export function axisTitle({ axis }) {
  if (!axis) return 'step';
  if (axis.name === 'time') return `time since step ${axis.from_step} began`;
  return axis.from_step > 0 ? `tokens since step ${axis.from_step}` : 'tokens';
}

/** Tooltip lines with the position of a column; none on the axis of steps. @returns {string[]} */
export function placeLines(data, column) {
  if (!data.axis) return [];
  const position = data.place[column];
  if (data.axis.name === 'tokens') return [`${Math.round(position).toLocaleString('en')} tokens`];
  const unit = UNITS.find(([size]) => position >= size) ?? UNITS[UNITS.length - 1];
  return [`${Number((position / unit[0]).toPrecision(4))} ${unit[1]} after step ${data.axis.from_step} began`];
}
