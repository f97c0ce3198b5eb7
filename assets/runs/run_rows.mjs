/**
 * Texts and numbers in the list of runs. Pure: no DOM.
 *
 * @typedef {Object} RunRow of app/views/run/runs.py
 * @property {string} name
 * @property {string} state
 * @property {?string} ended
 * @property {?number} attempts
 * @property {string} layout
 * @property {?number} num_ranks
 * @property {?number} world_size
 * @property {?number} first_step
 * @property {?number} last_step
 * @property {?number} num_steps
 * @property {?number} step_ms
 * @property {?number} num_hosts
 * @property {?number} age_s
 * @property {?number} num_bytes
 * @property {number} num_problems
 * @property {?string} problem
 * @property {?string} importing progress of its import
 * @property {?number} num_findings @property {?number} num_past @property {string} first_finding
 * @property {boolean} is_urgent whether that one costs the job now
 * @property {?number} num_noted
 * @property {?boolean} is_partial whether its banner is amber
 * @property {boolean} was_judged a diagnosis of it has ended
 */

import { stateText } from '../lib/sentences.mjs';

export const NONE = '\u2013';

const COUNT = new Intl.NumberFormat('en');
const AGES = [[86400, 'd'], [3600, 'h'], [60, 'min']];
const SIZES = [[1e12, 'TB'], [1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB']];

/** 3 significant digits with a unit. @param {?number} ms */
export function duration(ms) {
  if (ms === null || ms === undefined) return NONE;
  if (ms >= 60_000) return `${(ms / 60_000).toPrecision(3)} min`;
  if (ms >= 1000) return `${(ms / 1000).toPrecision(3)} s`;
  if (ms >= 1) return `${ms >= 100 ? Math.round(ms) : ms.toPrecision(3)} ms`;
  return `${Number((ms * 1000).toPrecision(3))} µs`;
}

/** Age in the largest unit that fits. @param {?number} seconds */
export function age(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  for (const [size, unit] of AGES) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${Math.floor(seconds)} s`;
}

/** @param {?number} bytes */
export function size(bytes) {
  if (bytes === null || bytes === undefined) return NONE;
  for (const [factor, unit] of SIZES) {
    if (bytes >= factor) return `${(bytes / factor).toPrecision(3)} ${unit}`;
  }
  return `${bytes} B`;
}

/** @param {?number} value */
export function count(value) {
  return value === null || value === undefined ? NONE : COUNT.format(value);
}

/** Ranks that have reported / world size, if it is known. @param {RunRow} row */
export function ranks(row) {
  if (row.num_ranks === null) return NONE;
  return row.world_size ? `${count(row.num_ranks)} / ${count(row.world_size)}` : count(row.num_ranks);
}

/** @param {RunRow} row */
export function steps(row) {
  if (row.last_step === null) return NONE;
  return row.first_step === row.last_step ? count(row.last_step)
    : `${count(row.first_step)} \u2013 ${count(row.last_step)}`;
}

/** Summary of the findings. @param {RunRow} row @returns {{text: string, tone: string}} */
export function findings(row) {
  if (row.num_findings === null) return { text: row.was_judged ? 'not judged' : 'not judged yet', tone: 'faint' };
  if (row.num_findings > 0) return { text: row.first_finding.replace(/\.$/, ''), tone: row.is_urgent ? 'fault' : 'warn' };
  const others = [[row.num_past, 'past'], [row.num_noted, 'noted']].filter(([number]) => number > 0);
  if (others.length) return { text: others.map((part) => part.join(' ')).join(', '), tone: 'quiet' };
  if (row.is_partial) return { text: 'none, with a warning', tone: 'warn' };
  return { text: 'none', tone: 'quiet' };
}

/** Rows whose name, state, layout or end contain all words. @param {RunRow[]} rows @param {string} text */
export function filtered(rows, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter((row) => {
    const hay = [row.name, row.state, stateText(row.state), row.layout, row.ended, row.problem, row.first_finding].join(' ').toLowerCase();
    return words.every((word) => hay.includes(word));
  });
}

/** Heading of the list: number of runs, and how many are running. @param {RunRow[]} rows @param {RunRow[]} shown */
export function summary(rows, shown) {
  const running = rows.filter((row) => row.state === 'running').length;
  const all = `${rows.length} run${rows.length === 1 ? '' : 's'}`;
  const some = shown.length === rows.length ? all : `${shown.length} of ${all}`;
  return running ? `${some}, ${running} running` : some;
}

/** Columns of the list: heading, text of a row, whether it is a number. */
export const COLUMNS = [
  { key: 'layout', title: 'Layout', text: (row) => row.layout || NONE },
  { key: 'ranks', title: 'Ranks', number: true, text: ranks, about: 'ranks that have reported / ranks of the job' },
  { key: 'hosts', title: 'Hosts', number: true, text: (row) => count(row.num_hosts) },
  { key: 'attempts', title: 'Attempts', number: true, text: (row) => count(row.attempts), about: 'starts of the job' },
  { key: 'steps', title: 'Steps', number: true, text: steps },
  { key: 'step', title: 'Step time', number: true, text: (row) => duration(row.step_ms), about: 'median of the newest finished steps, at most five; a step takes as long as its slowest pipeline group' },
  { key: 'age', title: 'Data age', number: true, text: (row) => age(row.age_s), about: 'time since the newest data of the run arrived at this server' },
  { key: 'size', title: 'Size', number: true, text: (row) => size(row.num_bytes) },
];
