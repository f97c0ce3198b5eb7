/** The filters of the page Fleet: model, host, and the days in which runs began. */
import { make } from '../lib/dom.mjs';

const FIELDS = ['model', 'host', 'from', 'until'];

/** @param {(patch: Object<string, string>) => void} choose called with what the user has changed */
export function filterForm(choose) {
  const hosts = make('datalist', { id: 'fleet-hosts' });
  const inputs = {
    model: make('select', { 'aria-label': 'Model' }),
    host: make('input', { type: 'search', list: 'fleet-hosts', placeholder: 'any host', 'aria-label': 'Host' }),
    from: make('input', { type: 'date', 'aria-label': 'First day' }),
    until: make('input', { type: 'date', 'aria-label': 'Last day' }),
  };
  for (const name of FIELDS) inputs[name].addEventListener('change', () => choose({ [name]: inputs[name].value, page: '' }));
  const clear = make('button', { type: 'button', on: { click: () => choose(Object.fromEntries([...FIELDS, 'page'].map((name) => [name, '']))) } }, 'Clear filters');
  const field = (text, name) => make('label', {}, make('span', { class: 'quiet' }, text), inputs[name]);
  const offered = {};
  /** Replace what is offered only where it is new: an open list would close. */
  const offer = (place, names, textOf) => {
    const key = JSON.stringify(names);
    if (offered[place.tagName] === key) return;
    offered[place.tagName] = key;
    place.replaceChildren(...names.map((name) => make('option', { value: name }, textOf(name))));
  };
  const element = make('form', { class: 'fleet-filter', on: { submit: (event) => event.preventDefault() } },
    field('Model', 'model'), field('Host', 'host'), field('Began from', 'from'), field('to', 'until'), clear, hosts);

  return {
    element,
    /** Show the state and what can be chosen; the field with the focus is left alone. */
    show(state, answer) {
      const models = ['', ...answer.models];
      if (state.model && !models.includes(state.model)) models.push(state.model);
      offer(inputs.model, models, (name) => name || 'any model');
      offer(hosts, answer.hosts, () => '');
      for (const name of FIELDS) if (name === 'model' || inputs[name] !== document.activeElement) inputs[name].value = state[name] ?? '';
      clear.hidden = !FIELDS.some((name) => state[name]);
    },
  };
}
