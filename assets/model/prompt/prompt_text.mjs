/**
 * What a prompt asks for, and what its frames say (trace_hooks/sources/prompt_frames.py). Pure.
 *
 * @typedef {Object} Told
 * @property {string} id @property {number} step after which it ran
 * @property {{id: number, text: string}[]} prompt
 * @property {{number: number, id: number, text: string, share: number, top: {id: number, text: string, share: number}[]}[]} tokens
 * @property {?{made: number, ms: number, problem: string}} end null while it runs
 */

export const WHATS = ['prompt_token', 'prompt_attention'];
export const LIMITS = { tokens: 64, layers: 16 };
const [TOKEN, ATTENTION] = WHATS;
const PROMPT_TOKENS = -1;
const THE_END = -2;

/** @returns {Object} arguments of the command prompt; raises Error with a sentence */
export function promptOf({ text, tokens, temperature, layers }) {
  if (!text.trim()) throw new Error('The prompt is empty; type something.');
  const count = Number(tokens);
  if (!/^\d+$/.test(tokens.trim()) || count < 1 || count > LIMITS.tokens) throw new Error(`New tokens is ${tokens.trim() || 'empty'}; give 1 to ${LIMITS.tokens}.`);
  const heat = Number(temperature);
  if (temperature.trim() === '' || !(heat >= 0 && heat <= 5)) throw new Error(`Temperature is ${temperature.trim() || 'empty'}; give 0 to 5, 0 takes the most probable token.`);
  return { text, tokens: count, temperature: heat, layers: layersOf(layers) };
}

/** "0, 3-5" to numbers; '' to none. */
function layersOf(text) {
  const found = [];
  for (const part of text.split(',').map((one) => one.trim()).filter(Boolean)) {
    const match = /^(\d{1,6})(?:-(\d{1,6}))?$/.exec(part);
    if (!match) throw new Error(`Layers is ${text.trim()}; list numbers, such as 0, 3-5.`);
    const [first, last] = [Number(match[1]), Number(match[2] ?? match[1])];
    for (let layer = first; layer <= last && found.length <= LIMITS.layers; layer++) found.push(layer);
  }
  if (found.length > LIMITS.layers) throw new Error(`Layers are more than ${LIMITS.layers}; choose some of them.`);
  return [...new Set(found)];
}

/** Layers to begin with: the first and the last. */
export const firstLayers = (layers) => [...new Set([layers[0], layers[layers.length - 1]])].filter((one) => one !== undefined).join(', ');

const pairs = ({ labels, values }) => labels.map(({ id, text }, at) => ({ id, text, share: values[at] }));

/** Frames of the newest prompt, or of the one `id` names. @returns {?Told} */
export function toldOf(frames, id = null) {
  const all = [...frames].filter(({ watch }) => id === null || watch === `prompt.${id}`);
  const newest = all.reduce((found, frame) => (found && found.ts_ns >= frame.ts_ns ? found : frame), null);
  if (!newest) return null;
  const own = all.filter(({ watch, what }) => watch === newest.watch && what === TOKEN);
  const of = (number) => own.find(({ sample }) => sample === number);
  const end = of(THE_END);
  const tokens = own.filter(({ sample }) => sample >= 0).sort((a, b) => a.sample - b.sample).map((frame) => {
    const [chosen, ...top] = pairs(frame);
    return { number: frame.sample, ...chosen, top };
  });
  return {
    id: newest.watch.slice('prompt.'.length), step: newest.step, tokens, prompt: of(PROMPT_TOKENS) ? pairs(of(PROMPT_TOKENS)) : [],
    end: end ? { made: end.values[0], ms: end.values[1], problem: end.labels[0]?.text ?? '' } : null,
  };
}

/** Layers of which there is attention. */
export const layersSeen = (frames, id) => [...new Set([...frames].filter(({ watch, what }) => watch === `prompt.${id}` && what === ATTENTION)
  .map(({ layer }) => layer))].sort((a, b) => a - b);

/** Attention of a token, all heads below each other, from all ranks that have some. */
export function attentionOf(frames, id, number, layer) {
  const own = [...frames].filter((frame) => frame.watch === `prompt.${id}` && frame.what === ATTENTION && frame.sample === number && frame.layer === layer)
    .sort((a, b) => a.row_begin - b.row_begin);
  if (!own.length) return null;
  const { columns } = own[0];
  const heads = own.flatMap((frame) => Array.from({ length: frame.rows }, (_, at) => frame.row_begin + at));
  const values = new Float32Array(heads.length * columns);
  let at = 0;
  for (const frame of own) {
    values.set(frame.values.subarray(0, frame.rows * columns), at);
    at += frame.rows * columns;
  }
  return { heads, columns, values };
}

/** Attention to each token: of one head, or the mean of all. */
export function sharesOf({ heads, columns, values }, head = null) {
  const rows = head === null ? heads.map((_, at) => at) : [heads.indexOf(head)].filter((at) => at >= 0);
  return Float32Array.from({ length: columns }, (_, column) => rows.reduce((sum, row) => sum + values[row * columns + column], 0) / (rows.length || 1));
}

/** A token as it is shown: spaces and line ends are seen. */
export const tokenShown = (text) => text.replace(/ /g, '·').replace(/\n/g, '↵').replace(/\t/g, '→') || '∅';

export const percent = (share) => (share >= 0.0995 ? `${Math.round(100 * share)}%` : share >= 0.000995 ? `${(100 * share).toFixed(share >= 0.00995 ? 1 : 2)}%` : '<0.1%');

/** What becomes of a prompt, one sentence. @param {?{id: string, step: ?number}} asked the one just asked for @param {?Told} told */
export function stateText(asked, told, step) {
  if (asked && asked.step === null) return 'Not every rank takes it, so none runs it.';
  if (asked && told?.id !== asked.id) return `It runs after step ${asked.step}, on all ranks at once${step === null ? '' : `; the job is in step ${step}`}.`;
  if (!told) return '';
  const count = (number) => `${number} token${number === 1 ? '' : 's'}`;
  if (!told.end) return `After step ${told.step}: ${count(told.tokens.length)} so far; training waits.`;
  const cost = `training waited ${Math.round(told.end.ms).toLocaleString('en')} ms and goes on as without it`;
  return told.end.problem ? `After step ${told.step} it ended early: ${told.end.problem}. After ${count(told.end.made)}; ${cost}.`
    : `After step ${told.step}: ${count(told.end.made)}; ${cost}.`;
}

/** Why nothing can be prompted from here, and what to do; null: it can. @param {Object} connected of api/connected */
export function whyNot({ connected, may_ask: mayAsk }) {
  if (!mayAsk) return 'Prompting the model needs the role operator: ask whoever started the server for an operator\'s link.';
  if (!connected) {
    return 'No rank of this run is connected. A job can be prompted while it trains where its script calls tracer.prompts(...) and it was started with '
      + 'TRACE_HOOKS_ALLOW_CONTENT=1, TRACE_HOOKS_SERVER and TRACE_HOOKS_TOKEN (docs/inspect.md).';
  }
  return null;
}
