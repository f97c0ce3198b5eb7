/** The form that begins a perturbation, and the ranks' answers. The URL contains the fields of the form. */
import { postCommand, showAnswers } from '../../lib/commands.mjs';
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
const AFTERWARDS = 'It ends after its last step; training continues from gradients of a perturbed model, which cannot be undone.';

export class PerturbControls {
  /** @param {() => void} changed called after ranks have answered */
  constructor(element, app, changed) {
    Object.assign(this, { app, changed, connected: null });
    this.status = make('p', { class: 'quiet', role: 'status' }, 'Looking for connected ranks.');
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
    element.append(make('header', {}, make('h2', {}, 'Perturb this job')), this.status, this.form, this.meaning, this.acks);
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

  /** Fill the form from the view state. */
  follow() {
    const form = formOf(this.app.view.model);
    const shownFields = fieldsOf(form);
    for (const [name, field] of Object.entries(this.fields)) {
      if (document.activeElement !== field) field.value = form[name];
      this.labels[name].hidden = !shownFields.has(name);
    }
    this.fields.head.placeholder = form.kind === 'flat_attention' ? '' : PLACEHOLDERS.head;
    const target = form.kind === 'flat_attention' ? null : TARGETS.find(([name]) => name === form.target);
    const kind = KINDS.find(([name]) => name === form.kind);
    this.explanation = [kind && `${kind[1]}: ${kind[2]}`, target && `${target[1]}: ${target[2]}`].filter(Boolean).join('; ');
    this.meaning.textContent = `${this.explanation}. ${AFTERWARDS}`;
  }

  /** @param {Object} connected of api/connected */
  show(connected) {
    this.connected = connected;
    const why = whyNot(connected);
    const { layers, heads } = connected;
    this.form.hidden = this.meaning.hidden = why !== null;
    this.status.textContent = why ?? `Ranks ${connected.ranks} are connected, ${connected.step < 0 ? 'before their first step' : `step ${connected.step}`}`
      + `${layers.length ? `; layers ${layers[0]} to ${layers[layers.length - 1]}` : ''}${heads ? `, ${heads} heads on each rank` : ''}.`;
    if (this.layers.children.length !== layers.length) this.layers.replaceChildren(...layers.map((layer) => make('option', { value: String(layer) })));
  }

  #begin() {
    try {
      const usedIds = this.connected.asked.map(({ perturbation }) => perturbation.id);
      this.#send(perturbationOf(formOf(this.app.view.model), usedIds));
    } catch (error) {
      showAnswers(this.acks, { error: error.message });
    }
  }

  /** End a perturbation on all ranks. */
  end(id) {
    return this.#send({ end: id });
  }

  async #send(args) {
    const reply = await postCommand(this.app, 'perturb', args);
    if (args.end && reply.acks?.some(({ ok }) => ok)) reply.acks = reply.acks.filter(({ ok }) => ok);  // other ranks did not have it
    showAnswers(this.acks, reply, reply.taken_back
      ? ['Not every rank took it, so it was ended again on those that did: ranks that compute together must be perturbed the same way.'] : []);
    const [first] = reply.args?.steps ?? [];
    if (first !== undefined && !reply.taken_back && reply.acks.some(({ ok }) => ok)) {
      const ranks = reply.acks.filter(({ ok }) => ok);
      setModel(this.app, { perturbation: `${ranks[0].attempt}.${reply.args.id}.${first}` }, { push: true });
    }
    this.changed();
  }
}
