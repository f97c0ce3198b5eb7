/**
 * The form of a prompt, and the answer in its frames. Pure.
 *
 * @typedef {Object} Answer
 * @property {string} id @property {number} step after which it ran
 * @property {{id: number, text: string}[]} prompt
 * @property {{number: number, id: number, text: string, share: number, top: {id: number, text: string, share: number}[]}[]} tokens
 * @property {?{made: number, ms: number, problem: string}} end null while the prompt runs
 */

export const KINDS = ['prompt_token', 'prompt_attention'];
export const LIMITS = { tokens: 64, layers: 16 };
const [TOKEN, ATTENTION] = KINDS;
const PROMPT_TOKENS = -1;
const THE_END = -2;

/** @returns {Object} arguments of the command prompt; throws an Error for people to read */
export function promptOf({ text, tokens, temperature, layers }) {
  if (!text.trim()) throw new Error('The prompt is empty; type something.');
  const count = Number(tokens);
  if (!/^\d+$/.test(tokens.trim()) || count < 1 || count > LIMITS.tokens) throw new Error(`New tokens is ${tokens.trim() || 'empty'}; give 1 to ${LIMITS.tokens}.`);
  const value = Number(temperature);
  if (temperature.trim() === '' || !(value >= 0 && value <= 5)) throw new Error(`Temperature is ${temperature.trim() || 'empty'}; give 0 to 5, 0 takes the most probable token.`);
  return { text, tokens: count, temperature: value, layers: layersOf(layers) };
}

/** "0, 3-5" as numbers; '' as none. */
function layersOf(text) {
  const layers = [];
  for (const part of text.split(',').map((entry) => entry.trim()).filter(Boolean)) {
    const match = /^(\d{1,6})(?:-(\d{1,6}))?$/.exec(part);
    if (!match) throw new Error(`Layers is ${text.trim()}; list numbers, such as 0, 3-5.`);
    const [first, last] = [Number(match[1]), Number(match[2] ?? match[1])];
    for (let layer = first; layer <= last && layers.length <= LIMITS.layers; layer++) layers.push(layer);
  }
  if (layers.length > LIMITS.layers) throw new Error(`Layers are more than ${LIMITS.layers}; choose some of them.`);
  return [...new Set(layers)];
}

/** Default layers: the first and the last. */
export const firstLayers = (layers) => [...new Set([layers[0], layers[layers.length - 1]])].filter((layer) => layer !== undefined).join(', ');

const pairs = ({ labels, values }) => labels.map(({ id, text }, i) => ({ id, text, share: values[i] }));

/** Answer to the newest prompt, or to the prompt with `id`. @returns {?Answer} */
export function answerOf(frames, id = null) {
  const all = [...frames].filter(({ watch }) => id === null || watch === `prompt.${id}`);
  const newest = all.reduce((latest, frame) => (latest && latest.ts_ns >= frame.ts_ns ? latest : frame), null);
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

/** Layers whose attention has arrived. */
export const attentionLayers = (frames, id) => [...new Set([...frames].filter(({ watch, what }) => watch === `prompt.${id}` && what === ATTENTION)
  .map(({ layer }) => layer))].sort((a, b) => a - b);

/** Attention of a token: a row for each head, from all ranks that hold heads. */
export function attentionOf(frames, id, number, layer) {
  const own = [...frames].filter((frame) => frame.watch === `prompt.${id}` && frame.what === ATTENTION && frame.sample === number && frame.layer === layer)
    .sort((a, b) => a.row_begin - b.row_begin);
  if (!own.length) return null;
  const { columns } = own[0];
  const heads = own.flatMap((frame) => Array.from({ length: frame.rows }, (_, row) => frame.row_begin + row));
  const values = new Float32Array(heads.length * columns);
  let offset = 0;
  for (const frame of own) {
    values.set(frame.values.subarray(0, frame.rows * columns), offset);
    offset += frame.rows * columns;
  }
  return { heads, columns, values };
}

/** Attention to each token: of one head, or the mean of all. */
export function sharesOf({ heads, columns, values }, head = null) {
  const rows = head === null ? heads.map((_, row) => row) : [heads.indexOf(head)].filter((row) => row >= 0);
  return Float32Array.from({ length: columns }, (_, column) => rows.reduce((sum, row) => sum + values[row * columns + column], 0) / (rows.length || 1));
}

/** A token as text with visible spaces and line ends. */
export const tokenShown = (text) => text.replace(/ /g, '·').replace(/\n/g, '↵').replace(/\t/g, '→') || '∅';

export const percent = (share) => (share >= 0.0995 ? `${Math.round(100 * share)}%` : share >= 0.000995 ? `${(100 * share).toFixed(share >= 0.00995 ? 1 : 2)}%` : '<0.1%');

/** State of a prompt, in one sentence. @param {?{id: string, step: ?number}} sent the prompt just sent @param {?Answer} answer */
export function stateText(sent, answer, step) {
  if (sent && sent.step === null) return 'Not every rank accepted it, so no rank runs it.';
  if (sent && answer?.id !== sent.id) return `It runs after step ${sent.step}, on all ranks at once${step === null ? '' : `; the job is in step ${step}`}.`;
  if (!answer) return '';
  const count = (number) => `${number} token${number === 1 ? '' : 's'}`;
  if (!answer.end) return `After step ${answer.step}: ${count(answer.tokens.length)} so far; training waits.`;
  const cost = `training waited ${Math.round(answer.end.ms).toLocaleString('en')} ms and continues unchanged`;
  return answer.end.problem ? `After step ${answer.step} it ended early: ${answer.end.problem}. After ${count(answer.end.made)}; ${cost}.`
    : `After step ${answer.step}: ${count(answer.end.made)}; ${cost}.`;
}

/** Why this page cannot send a prompt, and what to do about it; null if it can. @param {Object} connected of api/connected */
export function whyNotPromptable({ connected, may_ask: mayAsk }) {
  if (!mayAsk) return 'Prompting the model needs the role operator: ask whoever started the server for an operator\'s link.';
  if (!connected) {
    return 'No rank of this run is connected. To prompt a job from here, call tracer.prompts(...) in its script and start it with '
      + 'TRACE_HOOKS_ALLOW_CONTENT=1, TRACE_HOOKS_SERVER and TRACE_HOOKS_TOKEN (docs/inspect.md).';
  }
  return null;
}
