/** The form that corrects the layout: sizes, order, and a preview of each rank's coordinates. */
import { make } from '../lib/dom.mjs';
import { toast } from '../lib/page/dialogs.mjs';
import { AXES, FIELDS, LARGEST, orders, product, matchingOrder, sizeOf } from './layout_sizes.mjs';

const PREVIEW_AFTER_MS = 200;

async function errorMessage(answer) {
  try {
    return (await answer.json()).error;
  } catch {  // a proxy answered
    return `The server answered ${answer.status}.`;
  }
}

/** @param {() => void} onChange called when the layout of the run has changed */
export function layoutForm(container, app, onChange) {
  const form = new LayoutForm(container, app, onChange);
  form.load();
  return form;
}

class LayoutForm {
  constructor(container, app, onChange) {
    Object.assign(this, { container, app, onChange, fields: {} });
    this.#build();
  }

  destroy() {
    clearTimeout(this.timer);
    this.previewRequest?.abort();
  }

  /** Fill the form with the current layout. */
  async load() {
    try {
      this.current = await this.app.json(this.app.api('layout'));
    } catch (error) {
      this.#showMessage(error.message, true);
      return;
    }
    for (const [axis, field] of Object.entries(this.fields)) field.value = this.current.sizes[axis];
    this.undo.hidden = this.current.layout_from !== 'hand';
    this.wantedOrder = this.current.order;
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
    this.order.addEventListener('change', () => { this.wantedOrder = this.order.value; this.#loadPreview(); });
    const order = make('label', {}, [
      make('span', { text: 'Order ' }), make('span', { class: 'quiet', text: 'slowest varying first' }), this.order]);
    this.sum = make('output', { class: 'sum' });
    this.use = make('button', { type: 'submit', class: 'primary', text: 'Use this layout', disabled: true });
    this.undo = make('button', { type: 'button', text: 'Restore imported layout', hidden: true });
    this.undo.addEventListener('click', () => this.#send('DELETE'));
    this.message = make('p', { class: 'message', role: 'status', 'aria-live': 'polite' });
    this.preview = make('div', { class: 'preview' });
    const about = make('p', { class: 'quiet', text: 'The imported data does not change. All pages use the new layout at once, '
      + 'and you can undo it. Experts (EP) are spread over the same ranks as the other axes.' });
    this.form = make('form', {}, [
      make('div', { class: 'sizes' }, [...fields, order]), make('div', { class: 'actions' }, [this.use, this.undo, this.sum]),
      this.message, this.preview, about]);
    this.form.addEventListener('submit', (event) => { event.preventDefault(); this.#send('POST'); });
    this.container.replaceChildren(this.form);
  }

  #sizes() {
    return Object.fromEntries(Object.entries(this.fields).map(([axis, field]) => [axis, sizeOf(field.value)]));
  }

  #changed() {
    const sizes = this.#sizes();
    const bad = Object.keys(sizes).find((axis) => sizes[axis] === null);
    for (const [axis, field] of Object.entries(this.fields)) field.setAttribute('aria-invalid', String(sizes[axis] === null));
    if (bad) {
      this.#refuse('', `${bad.toUpperCase()} needs a whole number from 1 to ${LARGEST}.`);
      return;
    }
    const candidates = orders(sizes);
    this.order.replaceChildren(...candidates.map(({ value, text }) => make('option', { value, text })));
    this.order.value = matchingOrder(candidates, this.wantedOrder, sizes);
    this.order.disabled = candidates.length < 2;
    const { fits, text } = product(sizes, this.current.world_size);
    this.sum.textContent = text;
    this.sum.classList.toggle('fault', !fits);
    if (fits) this.#loadPreview();
    else this.#refuse(text, `The sizes of ${AXES.map((axis) => axis.toUpperCase()).join(', ')} must multiply to the ${this.current.world_size} ranks of the job.`);
  }

  #refuse(sum, text) {
    clearTimeout(this.timer);
    this.previewRequest?.abort();
    this.sum.textContent = sum;
    this.use.disabled = true;
    this.preview.replaceChildren();
    this.#showMessage(text);
  }

  #showMessage(text, isFault = false) {
    this.message.textContent = text;
    this.message.classList.toggle('fault', isFault);
  }

  /** Show the coordinates that the ranks would have with this layout. */
  #loadPreview() {
    clearTimeout(this.timer);
    this.previewRequest?.abort();
    this.use.disabled = true;
    this.timer = setTimeout(async () => {
      this.previewRequest = new AbortController();
      try {
        const params = { ...this.#sizes(), order: this.order.value };
        this.#show(await this.app.json(this.app.api('layout', params), this.previewRequest.signal));
      } catch (error) {
        if (error.name !== 'AbortError') this.#refuse(this.sum.textContent, error.message);
      }
    }, PREVIEW_AFTER_MS);
  }

  #show({ axes, places, groups_note: groups }) {
    this.use.disabled = this.current.refusal !== null;
    this.#showMessage(this.current.refusal ?? groups);
    const row = (title, cells) => make('tr', {}, [
      make('th', { scope: 'row', text: title }), ...cells.map((text) => make('td', { class: 'number', text: String(text) }))]);
    const more = this.current.num_ranks > places.length ? `, the first ${places.length} of ${this.current.num_ranks}` : '';
    const table = make('table', {}, [
      make('caption', { class: 'quiet', text: `Coordinates the ranks would have${more}` }),
      make('tbody', {}, [
        row('rank', places.map(([rank]) => rank)), ...axes.map((axis) => row(axis, places.map(([, coordinates]) => coordinates[axis])))])]);
    this.preview.replaceChildren(make('div', { class: 'scroll' }, [table]));
  }

  async #send(method) {
    const body = method === 'POST' ? JSON.stringify({ sizes: this.#sizes(), order: this.order.value }) : undefined;
    this.use.disabled = true;
    this.undo.disabled = true;
    this.#showMessage('Indexing the run again.');
    try {
      const answer = await fetch(this.app.api('layout'), { method, body, credentials: 'same-origin' });
      if (!answer.ok) throw new Error(await errorMessage(answer));
      const { layout, is_indexed: isIndexed } = await answer.json();
      const message = method === 'POST' ? `The layout is ${layout}, corrected by hand.` : 'The layout is as imported.';
      toast(isIndexed ? message : `${message} The index will follow shortly.`);
      this.onChange();
      await this.load();
    } catch (error) {
      this.#showMessage(`Nothing was changed: ${error.message}`, true);
      this.use.disabled = false;
    } finally {
      this.undo.disabled = false;
    }
  }
}
