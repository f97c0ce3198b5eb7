/**
 * What the form of a perturbation says, as the JSON of trace_hooks/perturbations.py, and why there is
 * none. Pure. What is chosen stands in the address: `m.p_NAME`, see FIELDS.
 *
 * @typedef {Object<string, string>} Form texts of the fields, by name
 */
import { freeId } from '../../lib/commands.mjs';

export const KINDS = [
  ['gaussian', 'Gaussian noise', 'x + N(0, strength²)'],
  ['uniform', 'scaled at random', 'x × U(1 − strength, 1 + strength)'],
  ['offset', 'offset', 'x + strength'],
  ['bit_flip', 'flipped bit', 'one bit of x'],
  ['ablate', 'ablated', 'x becomes 0'],
  ['flat_attention', 'flat attention', 'a head gives every key that it may see the same weight'],
];
export const TARGETS = [
  ['weights', 'weights', 'changed when a step begins, back bit for bit before the optimizer steps'],
  ['activations', 'activations', 'what attention and MLP return'],
  ['residual', 'between layers', 'what the layer hands to the next one'],
];
const STRONG = ['gaussian', 'uniform', 'offset'];
const RANDOM = ['gaussian', 'uniform', 'bit_flip'];

/** name: what the field says before somebody chooses. */
export const FIELDS = {
  kind: 'gaussian', target: 'weights', layer: '0', module: '', head: '', strength: '0.01', bit: '', extent: '', seed: '0',
  from: '', steps: '10',
};

/** The form that the address tells of. @param {Object<string, string>} model @returns {Form} */
export function formOf(model) {
  return Object.fromEntries(Object.entries(FIELDS).map(([name, text]) => [name, model[`p_${name}`] ?? text]));
}

/** Patch of the address for a field; what a field says by itself is not in it. */
export function patchOf(name, text) {
  return { [`p_${name}`]: text === FIELDS[name] ? null : text };
}

/** Names of the fields that a kind and target have. @param {Form} form */
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
 * @param {Form} form @param {string[]} taken ids of those there are
 * @returns {Object} arguments of the command perturb; raises Error with a sentence
 */
export function perturbationOf(form, taken) {
  const has = fieldsOf(form);
  const isFlat = form.kind === 'flat_attention';
  const found = {
    id: freeId(form.kind, taken), kind: form.kind, target: isFlat ? 'activations' : form.target, layer: number(form, 'layer', 'Layer'),
  };
  if (isFlat) found.module = 'attention';
  else if (has.has('module') && form.module) found.module = form.module;
  if (has.has('head') && (isFlat || form.head.trim())) found.head = number(form, 'head', 'Head');
  if (has.has('strength')) found.strength = number(form, 'strength', 'Strength', false);
  for (const [name, what] of [['bit', 'Bit'], ['extent', 'Values at most'], ['seed', 'Seed']]) {
    if (has.has(name) && form[name].trim()) found[name] = number(form, name, what);
  }
  const count = number(form, 'steps', 'For how many steps');
  if (count < 1) throw new Error('For how many steps is 0; give 1 at least.');
  if (form.from.trim() === '') return { ...found, num_steps: count };
  const first = number(form, 'from', 'From step');
  return { ...found, steps: [first, first + count - 1] };
}

/** "layer 3, mlp, head 2" */
export function placeText({ layer, module = null, head = null }) {
  return [`layer ${layer}`, module, head === null ? null : `head ${head}`].filter(Boolean).join(', ');
}

/** "Gaussian noise 0.01" */
export function kindText({ kind, strength = null, bit = null }) {
  const name = KINDS.find(([one]) => one === kind)?.[1] ?? kind;
  return `${name}${strength === null ? '' : ` ${strength}`}${bit === null ? '' : ` ${bit}`}`;
}

export const targetText = ({ target }) => TARGETS.find(([one]) => one === target)?.[1] ?? target;

/** Why nothing can be asked of this job from here, and what to do; null: it can. @param {Object} connected of api/connected */
export function whyNot({ connected, world_size: size, may_ask: mayAsk, ranks, allow_perturbation: allowing }) {
  if (!mayAsk) return 'Beginning a perturbation needs the role operator: ask whoever started the server for an operator\'s link.';
  if (!connected) {
    return 'No rank of this run is connected. To perturb a job from here, start it with TRACE_HOOKS_ALLOW_PERTURBATION=1, TRACE_HOOKS_SERVER '
      + 'and TRACE_HOOKS_TOKEN (docs/hooks.md).';
  }
  if (!allowing) {
    return 'This job lets nobody change its model: start it with TRACE_HOOKS_ALLOW_PERTURBATION=1, or with th.start(..., allow_perturbation=True).';
  }
  if (connected < size) return `${connected} of ${size} ranks are connected: wait for the others, as ranks that compute together must be perturbed alike.`;
  if (allowing !== ranks) {
    return `Only ranks ${allowing} of ${ranks} let their model be changed, and all ranks of a layer must be alike: `
      + 'start all of them with TRACE_HOOKS_ALLOW_PERTURBATION=1.';
  }
  return null;
}

/**
 * Rows of the list: what ranks are asked for now first, then what was recorded, newest first.
 * @param {Object[]} recorded of model/perturbations @param {Object[]} asked of api/connected @param {?number} step
 *   the job's now: what it has reached is under way, also where the ranks' marks are yet to come
 */
export function listed(recorded, asked, step = null) {
  const isSame = (one, other) => one.perturbation.id === other.perturbation.id && one.perturbation.steps[0] === other.perturbation.steps[0];
  const waiting = asked.filter((one) => !recorded.some((other) => isSame(one, other)))
    .map((one) => {
      const [first, last] = one.perturbation.steps;
      return { ...one, key: null, state: step !== null && step >= first ? 'under way' : 'waiting', first, last, why: '', canEnd: true };
    });
  const rows = recorded.map((one) => ({ ...one, canEnd: one.state === 'under way' && asked.some((other) => isSame(one, other)) }));
  return [...waiting, ...rows.reverse()];
}

/** What became of one, in words. */
export function stateText({ state, first, why, num_tensors: count }) {
  if (state === 'waiting') return `begins with step ${first}`;
  if (state === 'under way') return 'under way';
  const met = count ? '' : '; it changed nothing';
  return state === 'cut off' ? 'no end was recorded: the job stopped within it' : `over: ${why || 'ended'}${met}`;
}
