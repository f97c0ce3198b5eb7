/**
 * The form of a perturbation as the JSON that the hooks take, and texts about perturbations. Pure. The URL
 * contains the fields as `m.p_NAME`, see FIELDS.
 *
 * @typedef {Object<string, string>} Form texts of the fields, by name
 */
import { unusedId } from '../../lib/commands.mjs';

export const KINDS = [
  ['gaussian', 'Gaussian noise', 'x + N(0, strength²)'],
  ['uniform', 'scaled at random', 'x × U(1 − strength, 1 + strength)'],
  ['offset', 'offset', 'x + strength'],
  ['bit_flip', 'flipped bit', 'one bit of x'],
  ['ablate', 'ablated', 'x becomes 0'],
  ['flat_attention', 'flat attention', 'a head gives the same weight to every key that it may attend to'],
];
export const TARGETS = [
  ['weights', 'weights', 'changed when a step begins, restored bit for bit before the optimizer steps'],
  ['activations', 'activations', 'what attention and MLP return'],
  ['residual', 'between layers', 'what the layer passes to the next one'],
];
const STRONG = ['gaussian', 'uniform', 'offset'];
const RANDOM = ['gaussian', 'uniform', 'bit_flip'];

/** Default text of each field. */
export const FIELDS = {
  kind: 'gaussian', target: 'weights', layer: '0', module: '', head: '', strength: '0.01', bit: '', extent: '', seed: '0',
  from: '', steps: '10',
};

/** The form in the view state. @param {Object<string, string>} model @returns {Form} */
export function formOf(model) {
  return Object.fromEntries(Object.entries(FIELDS).map(([name, text]) => [name, model[`p_${name}`] ?? text]));
}

/** Patch of the view state for a field; default texts are left out. */
export function patchOf(name, text) {
  return { [`p_${name}`]: text === FIELDS[name] ? null : text };
}

/** Names of the fields that apply to a kind and target. @param {Form} form */
export function fieldsOf({ kind, target, module }) {
  const isFlat = kind === 'flat_attention';
  return new Set([
    'kind', 'layer', 'from', 'steps', ...(isFlat ? ['head'] : ['target', 'extent']),
    ...(STRONG.includes(kind) ? ['strength'] : []), ...(kind === 'bit_flip' ? ['bit'] : []), ...(RANDOM.includes(kind) ? ['seed'] : []),
    ...(!isFlat && target !== 'residual' ? ['module'] : []),
    ...(!isFlat && target === 'activations' && module === 'attention' ? ['head'] : []),
  ]);
}

function number(form, name, what, isWhole = true) {
  const text = form[name].trim();
  const value = Number(text);
  if (text === '' || !Number.isFinite(value) || (isWhole && !(Number.isInteger(value) && value >= 0))) {
    throw new Error(`${what} is ${JSON.stringify(text.slice(0, 40))}; give a ${isWhole ? 'whole number from 0' : 'number'}.`);
  }
  return value;
}

/**
 * @param {Form} form @param {string[]} usedIds of existing perturbations
 * @returns {Object} arguments of the command perturb; throws an Error for people to read
 */
export function perturbationOf(form, usedIds) {
  const fields = fieldsOf(form);
  const isFlat = form.kind === 'flat_attention';
  const perturbation = {
    id: unusedId(form.kind, usedIds), kind: form.kind, target: isFlat ? 'activations' : form.target, layer: number(form, 'layer', 'Layer'),
  };
  if (isFlat) perturbation.module = 'attention';
  else if (fields.has('module') && form.module) perturbation.module = form.module;
  if (fields.has('head') && (isFlat || form.head.trim())) perturbation.head = number(form, 'head', 'Head');
  if (fields.has('strength')) perturbation.strength = number(form, 'strength', 'Strength', false);
  for (const [name, what] of [['bit', 'Bit'], ['extent', 'Values at most'], ['seed', 'Seed']]) {
    if (fields.has(name) && form[name].trim()) perturbation[name] = number(form, name, what);
  }
  const count = number(form, 'steps', 'For how many steps');
  if (count < 1) throw new Error('For how many steps is 0; give 1 at least.');
  if (form.from.trim() === '') return { ...perturbation, num_steps: count };
  const first = number(form, 'from', 'From step');
  return { ...perturbation, steps: [first, first + count - 1] };
}

/** "layer 3, mlp, head 2" */
export function placeText({ layer, module = null, head = null }) {
  return [`layer ${layer}`, module, head === null ? null : `head ${head}`].filter(Boolean).join(', ');
}

/** "Gaussian noise 0.01" */
export function kindText({ kind, strength = null, bit = null }) {
  const name = KINDS.find(([name]) => name === kind)?.[1] ?? kind;
  return `${name}${strength === null ? '' : ` ${strength}`}${bit === null ? '' : ` ${bit}`}`;
}

export const targetText = ({ target }) => TARGETS.find(([name]) => name === target)?.[1] ?? target;

/** Why this page cannot perturb the job, and what to do about it; null if it can. @param {Object} connected of api/connected */
export function whyNot({ connected, world_size: size, may_ask: mayAsk, ranks, allow_perturbation: allowing }) {
  if (!mayAsk) return 'Beginning a perturbation needs the role operator: ask whoever started the server for an operator\'s link.';
  if (!connected) {
    return 'No rank of this run is connected. To perturb a job from here, start it with TRACE_HOOKS_ALLOW_PERTURBATION=1, TRACE_HOOKS_SERVER '
      + 'and TRACE_HOOKS_TOKEN (docs/hooks.md).';
  }
  if (!allowing) {
    return 'This job does not allow perturbations: start it with TRACE_HOOKS_ALLOW_PERTURBATION=1, or with th.start(..., allow_perturbation=True).';
  }
  if (connected < size) return `${connected} of ${size} ranks are connected: wait for the others, as ranks that compute together must be perturbed the same way.`;
  if (allowing !== ranks) {
    return `Only ranks ${allowing} of ${ranks} allow perturbations, and all ranks of a layer must be perturbed the same way: `
      + 'start all of them with TRACE_HOOKS_ALLOW_PERTURBATION=1.';
  }
  return null;
}

/**
 * Rows of the list: requested perturbations first, then recorded ones, the newest first.
 * @param {Object[]} recorded of model/perturbations @param {Object[]} requested of api/connected
 * @param {?number} step current step of the job: a perturbation whose steps it has reached is under way, even
 *   if the ranks' marks have not arrived yet
 */
export function perturbationRows(recorded, requested, step = null) {
  const isSame = (a, b) => a.perturbation.id === b.perturbation.id && a.perturbation.steps[0] === b.perturbation.steps[0];
  const waiting = requested.filter((request) => !recorded.some((row) => isSame(request, row)))
    .map((request) => {
      const [first, last] = request.perturbation.steps;
      return { ...request, key: null, state: step !== null && step >= first ? 'under way' : 'waiting', first, last, why: '', canEnd: true };
    });
  const rows = recorded.map((row) => ({ ...row, canEnd: row.state === 'under way' && requested.some((request) => isSame(row, request)) }));
  return [...waiting, ...rows.reverse()];
}

/** Text of the state of a perturbation. */
export function stateText({ state, first, why, num_tensors: count }) {
  if (state === 'waiting') return `begins with step ${first}`;
  if (state === 'under way') return 'under way';
  const effect = count ? '' : '; it changed nothing';
  return state === 'cut off' ? 'no end was recorded: the job stopped within it' : `over: ${why || 'ended'}${effect}`;
}
