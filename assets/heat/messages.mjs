/** What is said of a heat map and of what the pointer is on. Pure. */
import { IN_NOISE, NO_DATA } from '../lib/canvas/colour.mjs';
import { stepCount } from '../lib/canvas/step_axis.mjs';
import { formatValue, stepsText } from '../lib/value_text.mjs';
import { NOBODY } from './geometry.mjs';

const many = (count, what) => `${count.toLocaleString('en')} ${what}${count === 1 ? '' : 's'}`;

/** How much a map shows, and how. */
export function aboutMap(data) {
  if (data.kind === 'hosts') {
    return `${many(data.count, 'host')}${data.allSteps ? `, ${stepsText(data.allSteps)}` : ''}${
      data.height < data.count ? ', each pixel its furthest rank' : ''}`;
  }
  const steps = stepCount(data);
  if (data.isPart) return `the newest ${steps} steps; the others are being read`;
  if (data.isCut) return `${many(data.count, 'rank')} × ${many(steps, 'step')}: all of them are too many at once; the strip above chooses others`;
  if (!steps) return many(data.count, 'rank');
  const pooled = data.height < data.count || data.width < steps;
  return `${many(data.count, 'rank')} × ${many(steps, 'step')}${pooled ? ', each pixel its furthest cell' : ''}`;
}

/** Why there is nothing to see, or ''. */
export function emptyMap(data) {
  if (data.kind === 'hosts' ? !data.allSteps : !data.width) return data.nothing ?? 'No finished step yet.';
  const isNothing = data.code.every((code) => code === NO_DATA);
  return isNothing ? `${data.legend.metric.title} was not recorded in this run.` : '';
}

const isOne = ({ rows, steps }) => rows[0] === rows[1] && steps[0] === steps[1];

function title(data, block) {
  const { ranks, rows, steps } = block;
  if (data.kind === 'hosts') {
    const host = rows[0] === rows[1] ? data.hosts[rows[0]] || 'host unknown'
      : `hosts ${data.hosts[rows[0]]} to ${data.hosts[rows[1]]}`;
    return `${host}, ${ranks[0] === NOBODY ? `no rank at place ${steps[0]}` : `rank ${ranks[0]}`}`;
  }
  if (isOne(block)) return `rank ${ranks[0]}, step ${steps[0]}`;
  const rankText = rows[0] === rows[1] ? `rank ${ranks[0]}`
    : `${rows[1] - rows[0] + 1} ranks, ${ranks[0]} to ${ranks[1]}`;
  return `${rankText}; ${stepsText(steps)}`;
}

/**
 * Lines of the tip; the first is its title.
 * @param {Object} block blockAt() @param {?Object} cell the cell the block has its colour from, if known
 */
export function blockSentences(data, block, cell) {
  const lines = [title(data, block)];
  if (block.code === NO_DATA) return [...lines, 'not recorded'];
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
