/** Sentences about a heat map and about the block under the pointer. Pure. */
import { IN_NOISE, NO_DATA } from '../lib/canvas/colour.mjs';
import { stepCount } from '../lib/canvas/step_axis.mjs';
import { formatValue, stepsText } from '../lib/value_text.mjs';
import { NO_RANK } from './geometry.mjs';

const plural = (count, noun) => `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;

/** What a map shows, and how. */
export function aboutMap(data) {
  if (data.kind === 'hosts') {
    return `${plural(data.count, 'host')}${data.allSteps ? `, ${stepsText(data.allSteps)}` : ''}${
      data.height < data.count ? ', largest deviation per pixel' : ''}`;
  }
  const steps = stepCount(data);
  if (data.isPart) return `the newest ${steps} steps; loading the others`;
  if (data.isCut) return `${plural(data.count, 'rank')} × ${plural(steps, 'step')}: too many to show all at once; choose others in the strip above`;
  if (!steps) return plural(data.count, 'rank');
  const pooled = data.height < data.count || data.width < steps;
  return `${plural(data.count, 'rank')} × ${plural(steps, 'step')}${pooled ? ', largest deviation per pixel' : ''}`;
}

/** Why the map is empty, or ''. */
export function emptyMap(data) {
  if (data.nothing) return data.nothing;
  return data.code.every((code) => code === NO_DATA) ? `“${data.legend.metric.title}” is not recorded for this part.` : '';
}

const NO_PAST = 'no earlier steps to compare with';

/** What hatched blocks lack, for the legend: few ranks are compared with their own steps before. */
export function hatchingText({ code, lastStep, width, comparedFrom }) {
  if (comparedFrom === null || comparedFrom === undefined) return 'not recorded';
  const columns = code.reduce((found, one, i) => (one === NO_DATA ? found.add(i % width) : found), new Set());
  const isPast = (column) => lastStep[column] < comparedFrom;
  const known = [...columns];
  if (known.every(isPast)) return NO_PAST;
  return known.some(isPast) ? `not recorded, or ${NO_PAST}` : 'not recorded';
}

const isOne = ({ rows, steps }) => rows[0] === rows[1] && steps[0] === steps[1];

function title(data, block) {
  const { ranks, rows, steps } = block;
  if (data.kind === 'hosts') {
    const host = rows[0] === rows[1] ? data.hosts[rows[0]] || 'host unknown'
      : `hosts ${data.hosts[rows[0]]} to ${data.hosts[rows[1]]}`;
    return `${host}, ${ranks[0] === NO_RANK ? `no rank in slot ${steps[0]}` : `rank ${ranks[0]}`}`;
  }
  if (isOne(block)) return `rank ${ranks[0]}, step ${steps[0]}`;
  const rankText = rows[0] === rows[1] ? `rank ${ranks[0]}`
    : `${rows[1] - rows[0] + 1} ranks, ${ranks[0]} to ${ranks[1]}`;
  return `${rankText}; ${stepsText(steps)}`;
}

/**
 * Lines of the tooltip; the first is its title.
 * @param {Object} block blockAt() @param {?Object} cell the cell that gives the block its colour, if known
 */
export function blockSentences(data, block, cell) {
  const lines = [title(data, block)];
  if (block.code === NO_DATA) return [...lines, data.comparedFrom && block.steps[1] < data.comparedFrom ? NO_PAST : 'not recorded'];
  if (!cell) return lines;
  const { metric } = data.legend;
  if (!isOne(block)) lines.push(`furthest: rank ${cell.rank}, step ${cell.step}`);
  lines.push(`${metric.title} ${formatValue(cell.value, metric)}`);
  if (Number.isFinite(cell.peers_ms)) {
    lines.push(metric.unit === 'x'
      ? `peers' median ${formatValue(cell.peers_ms, { unit: 'ms', decimals: 1 })} of compute`
      : `peers' median ${formatValue(cell.peers_ms, metric)}`);
  }
  if (block.code === IN_NOISE) lines.push('within noise');
  return lines;
}
