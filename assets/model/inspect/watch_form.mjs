/** What the form of a watch says, as the JSON of trace_hooks/watches.py. Pure. */
import { freeId } from '../../lib/commands.mjs';
import { formatRanks } from '../../lib/view_state.mjs';

const MOST_LISTED = 64;

/** Numbers of "0-3, 5"; "all" and "" are all of them. Raises Error with a sentence. */
export function parseList(text, what) {
  const plain = text.trim().toLowerCase();
  if (plain === '' || plain === 'all') return 'all';
  const found = new Set();
  for (const part of plain.split(',')) {
    const match = /^\s*(\d{1,7})\s*(?:-\s*(\d{1,7}))?\s*$/.exec(part);
    const [first, last] = match ? [Number(match[1]), Number(match[2] ?? match[1])] : [1, 0];
    if (last < first) throw new Error(`${what} are ${JSON.stringify(text.slice(0, 40))}; give numbers such as 0-3, 5, or all.`);
    for (let one = first; one <= last && found.size <= MOST_LISTED; one++) found.add(one);
  }
  if (found.size > MOST_LISTED) throw new Error(`At most ${MOST_LISTED} ${what} can be listed; all has no such limit.`);
  return [...found];
}

/** A whole number of a field, null: it is empty. Raises Error with a sentence. */
function whole(text, what) {
  if (text.trim() === '') return null;
  if (!/^\d{1,12}$/.test(text.trim())) throw new Error(`${what} is ${JSON.stringify(text.slice(0, 40))}; give a whole number.`);
  return Number(text);
}

/**
 * @param {{what: string, layers: string, heads: string, every: string, steps: string, size: string,
 *   rate: string, samples: string}} form texts of the fields
 * @param {?number} step the job's now @param {string[]} taken ids of watches there are
 * @returns {Object} a watch; what has been left empty is left to the ranks
 */
export function watchOf(form, step, taken) {
  const steps = whole(form.steps, 'For how many steps');
  const size = whole(form.size, 'Size');
  const rate = whole(form.rate, 'MB/s');
  const watch = {
    id: freeId(form.what, taken), what: form.what, layers: parseList(form.layers, 'Layers'), heads: parseList(form.heads, 'Heads'),
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

/** Bytes in a unit that reads: "3.2 MB". */
export function bytesText(count) {
  for (const [size, unit] of [[2 ** 30, 'GB'], [2 ** 20, 'MB'], [2 ** 10, 'kB']]) {
    if (count >= size) return `${(count / size).toFixed(1)} ${unit}`;
  }
  return `${Math.round(count)} B`;
}

/** What a watch costs, as far as the ranks told: pieces of text. @param {?Object} costs of LiveRun.costs() */
export function costTexts(costs) {
  if (!costs) return ['nothing captured yet'];
  const texts = [];
  if (costs.cost_ms_per_step !== undefined) texts.push(`at most ${costs.cost_ms_per_step.toFixed(2)} ms a step on the rank it costs most`);
  if (costs.bytes_per_s !== undefined) texts.push(`${bytesText(costs.bytes_per_s)}/s`);
  if (costs.frames !== undefined) texts.push(`${costs.frames.toLocaleString('en')} frames`);
  if (costs.thinned) texts.push(`${costs.thinned.toLocaleString('en')} left out by the limit`);
  return texts.length ? texts : ['nothing captured yet'];
}
