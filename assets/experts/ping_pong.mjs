/** Ping-pong of micro-batches between attention and experts, and what balance would save. Sentences: pure. */
import { make } from '../lib/dom.mjs';
import { milliseconds, percent } from './text.mjs';

const MOST_STAGES = 64;

/** The three conditions of ping-pong, and whether they are met. @returns {{isMet: boolean, name: string, text: string}[]} */
export function conditions(row) {
  const [ta, te, tc] = [row.attention_ms, row.expert_ms, row.transfer_ms].map(milliseconds);
  const sides = row.on_same_ranks
    ? `Attention (Ta ${ta}) and experts (Te ${te}) run on the same ranks, so that there are no sides to be equal`
    : `Attention takes Ta ${ta}, experts take Te ${te}`;
  const slowest = row.on_same_ranks
    ? `computing a micro-batch (Ta + Te ${milliseconds(row.attention_ms + row.expert_ms)})`
    : `the longer side (${milliseconds(Math.max(row.attention_ms, row.expert_ms))})`;
  return [
    { isMet: row.are_equal, name: 'Equal sides', text: sides },
    { isMet: row.is_transfer_hidden, name: 'Short transfers', text: `Dispatch or combine takes Tc ${tc}, ${row.is_transfer_hidden ? 'less than' : 'not less than'} ${slowest}` },
    { isMet: row.are_enough, name: 'Enough micro-batches', text: enough(row) },
  ];
}

function enough({ micro_batches: m, least, on_same_ranks: isShared }) {
  if (least === null) return `With m = ${m} micro-batches all-to-alls take longer than computing, which no number of micro-batches hides`;
  if (m === 1 && isShared && least > 1) return `Micro-batches do not take turns (m = 1), so that nothing hides the all-to-alls; with at least ${least} the ranks always compute`;
  const has = `There ${m === 1 ? 'is m = 1 micro-batch' : `are m = ${m} micro-batches`} at a time`;
  return m >= least ? `${has}, and ${least} would do` : `${has}; at least ${least} keep the slowest part busy`;
}

/** How much of the time is idle. */
export function idleText(row) {
  const whole = `${row.micro_batches} micro-batch${row.micro_batches === 1 ? '' : 'es'} through ${row.layers} layer${row.layers === 1 ? '' : 's'}`;
  const took = `By these times ${whole} take${row.micro_batches === 1 ? 's' : ''} ${milliseconds(row.total_ms)} forward`;
  if (row.on_same_ranks) return `${took}, of which the ranks wait for all-to-alls ${percent(row.attention_idle)}.`;
  return `${took}, of which attention is idle ${percent(row.attention_idle)} and the experts ${percent(row.experts_idle)}.`;
}

/** What a step would save. */
export function savingText(saving) {
  if (!saving) return 'Unknown: it takes the time of the experts (spans of the MoE modules) and the ranks on which they lie.';
  const share = saving.step_ms ? `, ${percent(saving.ms / saving.step_ms)} of its ${milliseconds(saving.step_ms)}` : '';
  return `With equally many tokens on every EP rank a step would be about ${milliseconds(saving.ms)} shorter${share}. Measured: the rank that computes experts longest takes ${milliseconds(saving.longer_ms)} of a step longer than the mean of its stage.`;
}

export const ASSUMPTION = 'Assumed: experts take time in proportion to their tokens, the layers of a stage take equally '
  + 'long, all wait for the fullest rank in each layer, and the pipeline moves with its slowest stage.';

const stageText = ({ stage, num_ranks: count }) => `${stage < 0 ? '' : `stage ${stage}, `}${count.toLocaleString('en')} rank${count === 1 ? '' : 's'}`;

const lamps = (row) => make('ul', { class: 'experts-lamps' }, conditions(row).map(({ isMet, name, text }) => make('li',
  { class: isMet ? 'is-met' : 'is-not-met' }, make('b', {}, `${name}: ${isMet ? 'met' : 'not met'}. `), `${text}.`)));

/** Lamps of the stage that is idle most, and a table of all where there are several. */
export function pingPongContent({ ping_pong: rows }, table, number) {
  if (!rows.length) {
    return [make('p', { class: 'quiet' }, 'Not timed: it takes spans of attention and of the MoE modules, and all-to-alls of a group of axis ep. '
      + 'Spans of modules are recorded by themselves in the layers of known frameworks.')];
  }
  const [first] = rows;
  const content = [lamps(first), make('p', { class: 'experts-why' }, idleText(first))];
  if (rows.length === 1) return content;
  const lines = rows.slice(0, MOST_STAGES).map((row) => make('tr', {}, make('th', { scope: 'row' }, stageText(row)),
    ...[row.attention_ms, row.expert_ms, row.transfer_ms].map((value) => number(milliseconds(value))), number(String(row.micro_batches)),
    number(row.least === null ? 'none' : String(row.least), row.are_enough ? '' : 'is-slow'), number(percent(row.attention_idle)), number(percent(row.experts_idle)),
    make('td', {}, conditions(row).filter(({ isMet }) => !isMet).map(({ name }) => name.toLowerCase()).join(', ') || 'none')));
  return [make('p', { class: 'quiet' }, `Of ${stageText(first)}, which is idle most:`), ...content,
    table('Ping-pong by stage', ['', ['Ta'], ['Te'], ['Tc'], ['m'], ['least m'], ['attention idle'], ['experts idle'], 'not met'], lines)];
}
