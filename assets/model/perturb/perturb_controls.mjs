/** The form that begins a perturbation, and what each rank answers. What it says stands in the address. */
import { postCommand, tellAcks } from '../../lib/commands.mjs';
import { make } from '../../lib/dom.mjs';
import { setModel } from '../shared/model_state.mjs';
import { FIELDS, fieldsOf, formOf, KINDS, patchOf, perturbationOf, TARGETS, whyNot } from './perturb_form.mjs';

const LABELS = {
  kind: 'kind', target: 'of', layer: 'layer', module: 'module', head: 'head', strength: 'strength', bit: 'bit, 0 the lowest',
  extent: 'values at most', seed: 'seed', from: 'from step', steps: 'for steps',
};
const PLACEHOLDERS = { head: 'all', bit: 'random', extent: 'all', from: 'soon' };
const CHOICES = {
  kind: KINDS.map(([name, text]) => [name, text]), target: TARGETS.map(([name, text]) => [name, text]),
  module: [['', 'attention and MLP'], ['attention', 'attention'], ['mlp', 'MLP']],
};
const WHAT_STAYS = 'It ends by itself after its last step; training goes on from gradients of a perturbed model, which nothing takes back.';

export class PerturbControls {
  /** @param {() => void} changed called when ranks have answered */
  constructor(element, app, changed) {
    Object.assign(this, { app, changed, connected: null });
    this.said = make('p', { class: 'quiet', role: 'status' }, 'Looking for connected ranks.');
    this.meaning = make('p', { class: 'quiet' });
    this.acks = make('ul', { class: 'model-acks', 'aria-live': 'polite' });
    this.layers = make('datalist', { id: 'perturb-layers' });
    this.fields = Object.fromEntries(Object.keys(FIELDS).map((name) => [name, this.#field(name)]));
    this.labels = Object.fromEntries(Object.entries(this.fields).map(([name, field]) => [name, make('label', {}, [`${LABELS[name]} `, field])]));
    this.form = make('form', { hidden: '' }, [...Object.values(this.labels), this.layers, make('button', { type: 'submit', class: 'primary' }, 'Begin')]);
    this.form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#begin();
    });
    element.append(make('header', {}, make('h2', {}, 'Perturb this job')), this.said, this.form, this.meaning, this.acks);
    this.follow();
  }

  #field(name) {
    const label = { 'aria-label': LABELS[name] };
    const field = CHOICES[name]
      ? make('select', label, CHOICES[name].map(([value, text]) => make('option', { value }, text)))
      : make('input', { ...label, size: '6', placeholder: PLACEHOLDERS[name], inputmode: 'decimal', list: name === 'layer' ? 'perturb-layers' : null });
    field.addEventListener(CHOICES[name] ? 'change' : 'input', () => setModel(this.app, patchOf(name, field.value)));
    return field;
  }

  /** Take over what the address says. */
  follow() {
    const form = formOf(this.app.view.model);
    const has = fieldsOf(form);
    for (const [name, field] of Object.entries(this.fields)) {
      if (document.activeElement !== field) field.value = form[name];
      this.labels[name].hidden = !has.has(name);
    }
    this.fields.head.placeholder = form.kind === 'flat_attention' ? '' : PLACEHOLDERS.head;
    const target = form.kind === 'flat_attention' ? null : TARGETS.find(([name]) => name === form.target);
    const kind = KINDS.find(([name]) => name === form.kind);
    this.means = [kind && `${kind[1]}: ${kind[2]}`, target && `${target[1]}: ${target[2]}`].filter(Boolean).join('; ');
    this.meaning.textContent = `${this.means}. ${WHAT_STAYS}`;
  }

  /** @param {Object} connected of api/connected */
  show(connected) {
    this.connected = connected;
    const why = whyNot(connected);
    const { layers, heads } = connected;
    this.form.hidden = this.meaning.hidden = why !== null;
    this.said.textContent = why ?? `Ranks ${connected.ranks} are connected, ${connected.step < 0 ? 'before their first step' : `step ${connected.step}`}`
      + `${layers.length ? `; layers ${layers[0]} to ${layers[layers.length - 1]}` : ''}${heads ? `, ${heads} heads on each rank` : ''}.`;
    if (this.layers.children.length !== layers.length) this.layers.replaceChildren(...layers.map((layer) => make('option', { value: String(layer) })));
  }

  #begin() {
    try {
      const taken = this.connected.asked.map(({ perturbation }) => perturbation.id);
      this.#send(perturbationOf(formOf(this.app.view.model), taken));
    } catch (error) {
      tellAcks(this.acks, { error: error.message });
    }
  }

  /** End one on all ranks. */
  end(id) {
    return this.#send({ end: id });
  }

  async #send(args) {
    const told = await postCommand(this.app, 'perturb', args);
    if (args.end && told.acks?.some(({ ok }) => ok)) told.acks = told.acks.filter(({ ok }) => ok);  // others never had it
    tellAcks(this.acks, told, told.taken_back
      ? ['Not every rank took it, so it was ended again on those that did: ranks that compute together must be perturbed alike.'] : []);
    const [first] = told.args?.steps ?? [];
    if (first !== undefined && !told.taken_back && told.acks.some(({ ok }) => ok)) {
      const ranks = told.acks.filter(({ ok }) => ok);
      setModel(this.app, { perturbation: `${ranks[0].attempt}.${told.args.id}.${first}` }, { push: true });
    }
    this.changed();
  }
}
