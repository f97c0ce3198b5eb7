/** The form that corrects the layout: sizes, order, and who would stand where. */
import { make } from '../lib/dom.mjs';
import { toast } from '../lib/page/dialogs.mjs';
import { AXES, FIELDS, orders, product, sameOrder, sizeOf } from './layout_sizes.mjs';

const ASK_AFTER_MS = 200;

async function sentence(answer) {
  try {
    return (await answer.json()).error;
  } catch {  // a proxy answered
    return `The server answered ${answer.status}.`;
  }
}

/** @param {() => void} onChange called once the run has another layout */
export function layoutForm(place, app, onChange) {
  const form = new LayoutForm(place, app, onChange);
  form.load();
  return form;
}

class LayoutForm {
  constructor(place, app, onChange) {
    Object.assign(this, { place, app, onChange, fields: {} });
    this.#build();
  }

  destroy() {
    clearTimeout(this.timer);
    this.asking?.abort();
  }

  /** Take over the layout as it is. */
  async load() {
    try {
      this.told = await this.app.json(this.app.api('layout'));
    } catch (error) {
      this.#say(error.message, true);
      return;
    }
    for (const [axis, field] of Object.entries(this.fields)) field.value = this.told.sizes[axis];
    this.undo.hidden = this.told.layout_from !== 'hand';
    this.wanted = this.told.order;
    this.#changed();
  }

  #build() {
    const fields = FIELDS.map(([axis, about]) => {
      const field = make('input', { type: 'number', min: 1, step: 1, inputmode: 'numeric', name: axis });
      field.addEventListener('input', () => this.#changed());
      this.fields[axis] = field;
      return make('label', {}, [make('span', { text: `${axis.toUpperCase()} ` }, []), make('span', { class: 'quiet', text: about }), field]);
    });
    this.order = make('select', { name: 'order' });
    this.order.addEventListener('change', () => { this.wanted = this.order.value; this.#ask(); });
    const order = make('label', {}, [
      make('span', { text: 'Order ' }), make('span', { class: 'quiet', text: 'slowest first' }), this.order]);
    this.sum = make('output', { class: 'sum' });
    this.use = make('button', { type: 'submit', class: 'primary', text: 'Use this layout', disabled: true });
    this.undo = make('button', { type: 'button', text: 'Back to as imported', hidden: true });
    this.undo.addEventListener('click', () => this.#send('DELETE'));
    this.said = make('p', { class: 'said', role: 'status', 'aria-live': 'polite' });
    this.preview = make('div', { class: 'preview' });
    const about = make('p', { class: 'quiet', text: 'Nothing that was imported changes. Every page follows at once, '
      + 'and it can be taken back. Experts (EP) are spread over the same ranks, beside the others.' });
    this.form = make('form', {}, [
      make('div', { class: 'sizes' }, [...fields, order]), make('div', { class: 'actions' }, [this.use, this.undo, this.sum]),
      this.said, this.preview, about]);
    this.form.addEventListener('submit', (event) => { event.preventDefault(); this.#send('POST'); });
    this.place.replaceChildren(this.form);
  }

  #sizes() {
    return Object.fromEntries(Object.entries(this.fields).map(([axis, field]) => [axis, sizeOf(field.value)]));
  }

  #changed() {
    const sizes = this.#sizes();
    const bad = Object.keys(sizes).find((axis) => sizes[axis] === null);
    for (const [axis, field] of Object.entries(this.fields)) field.setAttribute('aria-invalid', String(sizes[axis] === null));
    if (bad) {
      this.#refuse('', `${bad.toUpperCase()} needs a whole number from 1.`);
      return;
    }
    const found = orders(sizes);
    this.order.replaceChildren(...found.map(({ value, text }) => make('option', { value, text })));
    this.order.value = sameOrder(found, this.wanted, sizes);
    this.order.disabled = found.length < 2;
    const { fits, text } = product(sizes, this.told.world_size);
    this.sum.textContent = text;
    this.sum.classList.toggle('fault', !fits);
    if (fits) this.#ask();
    else this.#refuse(text, `The sizes of ${AXES.map((axis) => axis.toUpperCase()).join(', ')} must multiply to the ${this.told.world_size} ranks of the job.`);
  }

  #refuse(sum, text) {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.sum.textContent = sum;
    this.use.disabled = true;
    this.preview.replaceChildren();
    this.#say(text);
  }

  #say(text, isFault = false) {
    this.said.textContent = text;
    this.said.classList.toggle('fault', isFault);
  }

  /** What the layout would mean, as the server sees it. */
  #ask() {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.use.disabled = true;
    this.timer = setTimeout(async () => {
      this.asking = new AbortController();
      try {
        const asked = { ...this.#sizes(), order: this.order.value };
        this.#show(await this.app.json(this.app.api('layout', asked), this.asking.signal));
      } catch (error) {
        if (error.name !== 'AbortError') this.#refuse(this.sum.textContent, error.message);
      }
    }, ASK_AFTER_MS);
  }

  #show({ axes, places, groups_said: groups }) {
    this.use.disabled = this.told.refusal !== null;
    this.#say(this.told.refusal ?? groups);
    const row = (title, cells) => make('tr', {}, [
      make('th', { scope: 'row', text: title }), ...cells.map((text) => make('td', { class: 'number', text: String(text) }))]);
    const more = this.told.num_ranks > places.length ? `, the first ${places.length} of ${this.told.num_ranks}` : '';
    const table = make('table', {}, [
      make('caption', { class: 'quiet', text: `Where the ranks would stand${more}` }),
      make('tbody', {}, [
        row('rank', places.map(([rank]) => rank)), ...axes.map((axis) => row(axis, places.map(([, at]) => at[axis])))])]);
    this.preview.replaceChildren(make('div', { class: 'scroll' }, [table]));
  }

  async #send(method) {
    const body = method === 'POST' ? JSON.stringify({ sizes: this.#sizes(), order: this.order.value }) : undefined;
    this.use.disabled = true;
    this.undo.disabled = true;
    this.#say('The run is indexed anew.');
    try {
      const answer = await fetch(this.app.api('layout'), { method, body, credentials: 'same-origin' });
      if (!answer.ok) throw new Error(await sentence(answer));
      const { layout, is_indexed: isIndexed } = await answer.json();
      const said = method === 'POST' ? `The layout is ${layout}, corrected by hand.` : 'The layout is as imported.';
      toast(isIndexed ? said : `${said} The index follows in a while.`);
      this.onChange();
      await this.load();
    } catch (error) {
      this.#say(`Nothing was changed: ${error.message}`, true);
      this.use.disabled = false;
    } finally {
      this.undo.disabled = false;
    }
  }
}
