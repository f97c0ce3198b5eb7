/** The form of a watch as the JSON that the hooks take, and texts about watches. Pure. */
import { unusedId } from '../../lib/commands.mjs';
import { formatRanks } from '../../lib/view_state.mjs';

const MOST_LISTED = 64;

/** Numbers of "0-3, 5"; "all" and "" mean all. Throws an Error for people to read. */
export function parseList(text, what) {
  const plain = text.trim().toLowerCase();
  if (plain === '' || plain === 'all') return 'all';
  const numbers = new Set();
  for (const part of plain.split(',')) {
    const match = /^\s*(\d{1,7})\s*(?:-\s*(\d{1,7}))?\s*$/.exec(part);
    const [first, last] = match ? [Number(match[1]), Number(match[2] ?? match[1])] : [1, 0];
    if (last < first) throw new Error(`${what} are ${JSON.stringify(text.slice(0, 40))}; give numbers such as 0-3, 5, or all.`);
    for (let number = first; number <= last && numbers.size <= MOST_LISTED; number++) numbers.add(number);
  }
  if (numbers.size > MOST_LISTED) throw new Error(`At most ${MOST_LISTED} ${what} can be listed; "all" has no such limit.`);
  return [...numbers];
}

/** The whole number in a field, null if it is empty. Throws an Error for people to read. */
function whole(text, what) {
  if (text.trim() === '') return null;
  if (!/^\d{1,12}$/.test(text.trim())) throw new Error(`${what} is ${JSON.stringify(text.slice(0, 40))}; give a whole number.`);
  return Number(text);
}

/**
 * @param {{what: string, layers: string, heads: string, every: string, steps: string, size: string,
 *   rate: string, samples: string}} form texts of the fields
 * @param {?number} step the current step of the job @param {string[]} usedIds of existing watches
 * @returns {Object} a watch; the hooks fill in what the form leaves empty
 */
export function watchOf(form, step, usedIds) {
  const steps = whole(form.steps, 'For how many steps');
  const size = whole(form.size, 'Size');
  const rate = whole(form.rate, 'MB/s');
  const watch = {
    id: unusedId(form.what, usedIds), what: form.what, layers: parseList(form.layers, 'Layers'), heads: parseList(form.heads, 'Heads'),
    every: whole(form.every, 'Every') ?? 1, samples: form.samples === 'mean' ? 'mean' : [0],
  };
  if (steps !== null && step !== null) watch.until = step + steps;
  if (size !== null) watch.size = size;
  if (rate !== null) watch.bytes_per_s = Math.round(rate * 2 ** 20);
  return watch;
}

/** "all layers", "layers 0-3,7" */
const listed = (what, value) => (Array.isArray(value) ? `${what} ${formatRanks(value)}` : `all ${what}`);

/** "attention of layers 0-1, all heads, every 2 steps until step 90, sequences 0" */
export function watchText(watch) {
  const heads = ['attention', 'qkv'].includes(watch.what) ? `, ${listed('heads', watch.heads)}` : '';
  const every = watch.every === 1 ? 'every step' : `every ${watch.every} steps`;
  const until = watch.until === null || watch.until === undefined ? '' : ` until step ${watch.until}`;
  const samples = watch.samples === 'mean' ? 'mean of the batch' : listed('sequences', watch.samples);
  return `${watch.what} of ${listed('layers', watch.layers)}${heads}, ${every}${until}, ${samples}`;
}

/** Bytes in a readable unit: "3.2 MB". */
export function bytesText(count) {
  for (const [size, unit] of [[2 ** 30, 'GB'], [2 ** 20, 'MB'], [2 ** 10, 'kB']]) {
    if (count >= size) return `${(count / size).toFixed(1)} ${unit}`;
  }
  return `${Math.round(count)} B`;
}

/** Texts about the cost of a watch, as far as the ranks have reported it. @param {?Object} costs */
export function costTexts(costs) {
  if (!costs) return ['nothing captured yet'];
  const texts = [];
  if (costs.cost_ms_per_step !== undefined) texts.push(`at most ${costs.cost_ms_per_step.toFixed(2)} ms a step on the rank it costs most`);
  if (costs.bytes_per_s !== undefined) texts.push(`${bytesText(costs.bytes_per_s)}/s`);
  if (costs.frames !== undefined) texts.push(`${costs.frames.toLocaleString('en')} frames`);
  if (costs.thinned) texts.push(`${costs.thinned.toLocaleString('en')} dropped by the rate limit`);
  return texts.length ? texts : ['nothing captured yet'];
}
