/** What the start-up of ranks is called, and where its bars lie. Pure. */
import { duration } from '../lib/value_text.mjs';

export const LABEL = {
  before: 'before the hooks', imports: 'imports', hooks: 'start of the hooks', rendezvous: 'rendezvous', groups: 'process groups',
  communication: 'waiting for ranks', device: 'device', model: 'model', restore: 'checkpoint read', compile: 'compilation',
  data: 'first batch', other: 'other code', 'first step': 'first step', 'warm-up': 'warm-up in it', 'not recorded': 'not recorded',
};

/** '2.5 GB'; '' where it is unknown. */
export function bytes(count) {
  if (count === null || count === undefined) return '';
  for (const [unit, size] of [['GB', 1e9], ['MB', 1e6], ['kB', 1e3]]) {
    if (count >= size) return `${(count / size).toFixed(1)} ${unit}`;
  }
  return `${count} B`;
}

const upper = (text) => text[0].toUpperCase() + text.slice(1);
export const ranksText = (ranks, most = 8) => `rank${ranks.length > 1 ? 's' : ''} ${ranks.slice(0, most).join(', ')}${ranks.length > most ? ` and ${ranks.length - most} more` : ''}`;

/** How long it took, or takes, and how much of it is known. @param {object} found answer of `startup` */
export function headline({ is_over: isOver, seconds, num_ranks: numRanks, recorded }) {
  const known = recorded === null ? '' : ` ${(100 * recorded).toFixed(1)} % of that is recorded.`;
  const on = `${numRanks} rank${numRanks > 1 ? 's' : ''}`;
  return isOver ? `${duration(seconds)} from the start of the first process to the end of the last first step, on ${on}.${known}`
    : `Starting for ${duration(seconds)}: ${on} so far.${known}`;
}

/** A sentence on each phase in which ranks are slow. */
export function slowSentences({ slow, groups, doing, is_over: isOver }) {
  const said = slow.map((one) => `${upper(ranksText(one.ranks))}: ${duration(one.seconds)} ${doing[one.phase]} (${one.what}), the others ${duration(one.usual_s)}. `
    + (isOver ? `Without that, the first step would have ended up to ${duration(one.cost_s)} earlier.` : `The others have waited ${duration(one.cost_s)} for that.`));
  if (groups) said.push(`Making ${groups.num_groups} process groups took all ranks ${duration(groups.seconds)}, ${duration(groups.seconds / Math.max(groups.num_groups, 1))} each.`);
  return said;
}

/** What a rank does now, or ''. */
export const nowText = ({ now }, doing) => (now ? `${doing[now.phase]} for ${duration(now.seconds)}: ${now.what}` : '');

/** Bars of a rank as {part, what, left, width}, shares of `whole` s. Its first step lies below what runs inside of it. */
export function barsOf(rank, whole) {
  const bar = (part, what, begin, seconds) => ({ part, what: `${LABEL[part]}, ${duration(seconds)}${what ? `: ${what}` : ''}`, left: begin / whole, width: seconds / whole });
  const bars = [];
  if (rank.step_begin_s !== null && rank.step_end_s !== null) {
    const warm = rank.parts['warm-up'] ?? 0;
    const step = rank.step_end_s - rank.step_begin_s;
    bars.push(bar('warm-up', 'longer than a usual step', rank.step_begin_s, step));
    bars.push(bar('first step', 'as long as a usual step', rank.step_end_s - Math.min(step, step - warm), Math.max(step - warm, 0)));
  }
  return [...bars, ...rank.bars.map((one) => bar(one.phase, one.what, one.begin_s, one.seconds))];
}

/** A row of reads and saves as cells. */
export const callCells = (call) => [
  call.step < 0 ? 'before the first step' : `step ${call.step}`,
  { save: 'save', background: 'save, in the background', read: 'read' }[call.action],
  call.name, String(call.num_ranks), duration(call.longest_s), bytes(call.num_bytes),
  call.mb_per_s === null ? '' : `${bytes(1e6 * call.mb_per_s)}/s`, call.num_failed ? `failed on ${call.num_failed}` : '',
];

/** Files have a schema, which counts by itself: the hooks have other versions. */
export const NOT_RECORDED = 'Hooks with the source startup record what each rank does before its first step, in files of schema 1.7 or newer.';
