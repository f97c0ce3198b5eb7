/** Sentences and texts of the what-if page, from the numbers of app/views/whatif/answer.py. Pure. */
import { stepsText } from '../lib/value_text.mjs';

const MOST_NAMED = 8;

/** `46.3 s`, `2.17 s`, `132 ms`: three digits. */
export function seconds(s) {
  if (Math.abs(s) >= 100) return `${s.toFixed(0)} s`;
  if (Math.abs(s) >= 0.9995) return `${s.toPrecision(3)} s`;  // 999.6 ms is 1.00 s
  return Math.abs(s) < 1e-3 ? `${(1e6 * s).toFixed(0)} µs` : `${(1e3 * s).toPrecision(3)} ms`;
}

/** `1.973`, `12.4`. */
export const ratio = (x) => x.toFixed(Math.abs(x) < 10 ? 3 : 1);

/** `49.3 %`. */
export const percent = (share) => `${(100 * share).toFixed(1)} %`;

/** `+0.67 %`, with its sign. */
export const signedPercent = (share) => `${share < 0 ? '-' : '+'}${Math.abs(100 * share).toFixed(2)} %`;

/** Ranks as text, the first few of them. */
export function ranksText(ranks) {
  const named = ranks.slice(0, MOST_NAMED).join(', ');
  const more = ranks.length > MOST_NAMED ? ` and ${ranks.length - MOST_NAMED} more` : '';
  return `rank${ranks.length === 1 ? '' : 's'} ${named}${more}`;
}

/** The ranks of a cell, ascending: `4`, `4–7`, `0, 8, ..`. */
export function cellRanks(ranks) {
  const last = ranks[ranks.length - 1];
  if (ranks.length < 2) return String(ranks[0]);
  return last - ranks[0] === ranks.length - 1 ? `${ranks[0]}\u2013${last}` : `${ranks[0]}, ${ranks[1]}${ranks.length > 2 ? ', ..' : ''}`;
}

/** The replayed steps: `on average over 44 steps, 0 to 43`. */
export function replayedSteps(steps) {
  const [first, last] = [steps[0], steps[steps.length - 1]];
  return steps.length === 1 ? `in ${stepsText([first, last])}` : `on average over ${steps.length.toLocaleString('en')} steps, ${first} to ${last}`;
}

/** Why these steps are shown, where nobody chose them. */
export const whyShown = (steps) => (steps.length === 1 ? 'the one replayed' : 'those replayed');

/** What the numbers of the replay are, as opposed to what a finding costs. */
const HEADING = 'All unevenness of the ranks together, by replay';

/** Whether more is lost than a healthy job loses. @param {Object} result */
export const isStraggling = (result) => result.S >= result.straggling;

/** The sentence at the top of the page. @param {Object} result numbers of the server */
export function headline(result) {
  const [real, ideal] = [seconds(result.T_s), seconds(result.T_ideal_s)];
  if (!isStraggling(result)) {
    return `${HEADING}: next to nothing. A step takes ${real}, and ${ideal} without it.`;
  }
  return `${HEADING}: ${percent(1 - 1 / result.S)} of the replayed time. A step takes ${real}, and ${ideal} without it.`;
}

/** The tooltip that gives the symbol of a number. */
export const symbolText = (symbol) => `${symbol} in the what-if paper (arXiv 2505.05713)`;

/** A share of the lost time. Not above 0: the job is as slow without these workers. */
const recovered = (share) => (share > 0 ? percent(share) : 'none');

/**
 * The tiles: label, value and a short explanation each; `symbol` is the name in the paper.
 * @returns {{label: string, symbol?: string, formula?: string, value: string, detail: string, warns?: boolean, ranks?: number[],
 *   afterRanks?: string}[]} the ranks stand between `detail` and `afterRanks`
 */
export function tiles(result) {
  const isFarOff = Math.abs(result.fidelity) > result.most_infidelity;
  const shown = [
    { label: 'Slowdown', symbol: 'S', value: `${ratio(result.S)} x`, detail: isStraggling(result) ? 'step time over the step time without stragglers' : `below ${result.straggling} a job counts as healthy` },
    { label: 'Step time, replayed', symbol: 'T', value: seconds(result.T_s), detail: `${seconds(result.T_base_s)} as measured` },
    { label: 'Step time without stragglers', symbol: 'T_ideal', value: seconds(result.T_ideal_s), detail: 'every operation takes as long as is usual for its type' },
    {
      label: 'Fidelity', formula: 'measured / replayed - 1', value: signedPercent(result.fidelity), warns: isFarOff,
      detail: isFarOff ? 'far off: read the rest with care' : 'measured step time compared with the replayed one',
    },
  ];
  if (!isStraggling(result)) return shown;  // shares of next to nothing mean nothing
  if (result.M_W !== null) {
    shown.push({
      label: 'Worst ranks', symbol: 'M_W', value: recovered(result.M_W), detail: 'of the lost time is recovered if', ranks: result.M_W_ranks,
      afterRanks: result.M_W_ranks.length === 1 ? 'keeps pace' : 'keep pace',
    });
  }
  if (result.M_S !== null) {
    shown.push({ label: 'Last stage', symbol: 'M_S', value: recovered(result.M_S), detail: 'of the lost time is recovered if it keeps pace' });
  }
  return shown;
}

/** Notes, split into warnings and explanations. @returns {{warning: string[], plain: string[]}} */
export function notesOf(result) {
  const isFarOff = Math.abs(result.fidelity) > result.most_infidelity;
  const isWarning = (note) => isFarOff && note.startsWith('Measured steps are');
  return { warning: result.notes.filter(isWarning), plain: result.notes.filter((note) => !isWarning(note)) };
}

/**
 * Rows of a table of slowdowns, the greatest first, with the length of each bar from 0 to 1.
 * @param {[string, number, ?number][]} entries name, slowdown, rank @param {number} most rows
 * @returns {{rows: {name: string, value: number, share: number, rank: ?number}[], left: number}}
 */
export function bars(entries, most) {
  const sorted = entries.toSorted((a, b) => b[1] - a[1]);
  const full = Math.max(0.05, (sorted[0]?.[1] ?? 1) - 1);
  const rows = sorted.slice(0, most).map(([name, value, rank = null]) => (
    { name, value, rank, share: Math.min(1, Math.max(0, (value - 1) / full)) }));
  return { rows, left: sorted.length - rows.length };
}
