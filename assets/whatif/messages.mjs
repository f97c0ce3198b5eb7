/** What the what-if page says. Pure: numbers of app/views/whatif.py become sentences and texts. */
import { stepsText } from '../lib/value_text.mjs';

const MOST_NAMED = 8;

/** `46.3 s`, `2.17 s`, `132 ms`: three digits. */
export function seconds(s) {
  if (Math.abs(s) >= 100) return `${s.toFixed(0)} s`;
  if (Math.abs(s) >= 1) return `${s.toPrecision(3)} s`;
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

/** The steps that were replayed: `44 steps, 0 to 43`. */
export function stepsSaid(steps) {
  const [first, last] = [steps[0], steps[steps.length - 1]];
  return steps.length === 1 ? stepsText([first, last]) : `${steps.length.toLocaleString('en')} steps, ${first} to ${last}`;
}

/** Whether there is anything to share out. @param {Object} told */
export const isStraggling = (told) => told.S >= told.straggling;

/** The one sentence on top. @param {Object} told numbers of the server */
export function headline(told) {
  const [real, ideal] = [seconds(told.T_s), seconds(told.T_ideal_s)];
  if (!isStraggling(told)) {
    return `Stragglers cost next to nothing: a step takes ${real}, and ${ideal} without them.`;
  }
  return `Stragglers cost ${percent(1 - 1 / told.S)} of the time: a step takes ${real}, and ${ideal} without them.`;
}

/**
 * The tiles: what each says, in a few words.
 * @returns {{label: string, value: string, detail: string, warns?: boolean, ranks?: number[]}[]}
 */
export function tiles(told) {
  const far = Math.abs(told.fidelity) > told.most_infidelity;
  const shown = [
    { label: 'S, slowdown', value: `${ratio(told.S)} x`, detail: isStraggling(told) ? 'a step beside one without stragglers' : `below ${told.straggling} a job counts as healthy` },
    { label: 'T, replayed', value: seconds(told.T_s), detail: `${seconds(told.T_base_s)} as measured` },
    { label: 'T ideal', value: seconds(told.T_ideal_s), detail: 'every operation as long as is usual for its type' },
    {
      label: 'Fidelity', value: signedPercent(told.fidelity), warns: far,
      detail: far ? 'far off: take what follows with care' : 'measured beside replayed steps',
    },
  ];
  if (told.M_W !== null) {
    shown.push({ label: 'M_W, worst workers', value: percent(told.M_W), detail: 'of the loss is gone without', ranks: told.M_W_ranks });
  }
  if (told.M_S !== null) {
    shown.push({ label: 'M_S, last stage', value: percent(told.M_S), detail: 'of the loss is gone without its delays' });
  }
  return shown;
}

/** Notes that warn, apart from those that explain. @returns {{warning: string[], plain: string[]}} */
export function notesOf(told) {
  const far = Math.abs(told.fidelity) > told.most_infidelity;
  const isWarning = (note) => far && note.startsWith('Measured steps are');
  return { warning: told.notes.filter(isWarning), plain: told.notes.filter((note) => !isWarning(note)) };
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
