/** What a running job captures, where and at what cost; the form that begins and ends watches. */
import { ackLines } from '../../lib/commands.mjs';
import { make } from '../../lib/dom.mjs';
import { formatRanks } from '../../lib/view_state.mjs';
import { costTexts, watchOf, watchText } from './watch_form.mjs';

const KINDS = ['attention', 'qkv', 'mlp', 'residual', 'logits', 'gradients', 'weights'];
const FIELDS = [
  ['layers', 'layers', 'all'], ['heads', 'heads', 'all'], ['every', 'every n steps', '1'], ['steps', 'for steps', '100'],
  ['size', 'at most pixels', '256'], ['rate', 'at most MB/s', '4'],
];

export class WatchControls {
  constructor(element, app) {
    Object.assign(this, { app, state: null });
    this.status = make('p', { class: 'quiet', role: 'status' }, 'No rank is connected.');
    this.list = make('ul', { class: 'model-watches' });
    this.acks = make('ul', { class: 'model-acks', 'aria-live': 'polite' });
    this.what = make('select', { 'aria-label': 'what to watch' }, KINDS.map((what) => make('option', { value: what }, what)));
    this.samples = make('select', { 'aria-label': 'sequences' }, [
      make('option', { value: '0' }, 'first sequence'), make('option', { value: 'mean' }, 'mean of the batch')]);
    this.fields = Object.fromEntries(FIELDS.map(([name, label, value]) => [name, make('input', { 'aria-label': label, value, size: '6' })]));
    this.form = make('form', {}, [
      make('label', {}, ['watch ', this.what]), ...FIELDS.map(([name, label]) => make('label', {}, [`${label} `, this.fields[name]])),
      this.samples, make('button', { type: 'submit' }, 'Watch'),
    ]);
    this.form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#begin();
    });
    element.append(make('header', {}, make('h2', {}, 'What is captured')), this.status, this.list, this.form, this.acks);
  }

  /** @param {?Object} state message of the socket */
  show(state) {
    this.state = state;
    const connected = state?.connected ?? 0;
    this.form.hidden = connected === 0;
    this.status.textContent = connected === 0
      ? 'No rank is connected. Start the job with allow_content=True, TRACE_HOOKS_SERVER and TRACE_HOOKS_TOKEN to watch it live (docs/inspect.md).'
      : `${connected} rank${connected === 1 ? '' : 's'} connected, step ${state.step}; ${(state.frames ?? 0).toLocaleString('en')} frames received, `
        + `${(state.thinned ?? 0).toLocaleString('en')} dropped at the ranks, ${(state.skipped ?? 0).toLocaleString('en')} not sent to this page.`;
    const watches = state?.watches ?? [];
    this.list.hidden = watches.length === 0;
    const key = JSON.stringify([watches, state?.costs]);
    if (key === this.key) return;
    this.key = key;
    this.list.replaceChildren(...watches.map((watch) => this.#item(watch, state.costs?.[watch.id])));
  }

  #item(watch, costs) {
    const end = make('button', { 'aria-label': `end ${watch.id}` }, 'End');
    end.addEventListener('click', () => this.#post({ end: [watch.id] }));
    return make('li', {}, [make('b', {}, watch.id === watch.what ? '' : `${watch.id}: `), `${watchText(watch)} `, make('span', { class: 'quiet' }, costTexts(costs).join(', ')), ' ', end]);
  }

  #begin() {
    const form = Object.fromEntries(Object.entries(this.fields).map(([name, field]) => [name, field.value]));
    try {
      const usedIds = (this.state?.watches ?? []).map(({ id }) => id);
      const watch = watchOf({ ...form, what: this.what.value, samples: this.samples.value }, this.state?.step ?? null, usedIds);
      this.#post({ watches: [watch] });
    } catch (error) {
      this.#showAnswers([{ ok: false, ranks: [], text: error.message }]);
    }
  }

  async #post(body) {
    const url = `${this.app.base}/api/watch?run=${encodeURIComponent(this.app.view.run)}`;
    try {
      const answer = await fetch(url, {
        method: 'POST', credentials: 'same-origin', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body),
      });
      const reply = await answer.json();
      if (answer.ok) this.#showAnswers(ackLines(reply));
      else this.#showAnswers([{ ok: false, ranks: [], text: reply.error ?? `The server answered ${answer.status}.` }]);
    } catch {
      this.#showAnswers([{ ok: false, ranks: [], text: 'The server cannot be reached.' }]);
    }
  }

  #showAnswers(lines) {
    this.acks.replaceChildren(...lines.map(({ ok, ranks, text }) => make('li', { class: ok ? null : 'fault' },
      ranks.length ? `${ranks.length === 1 ? 'rank' : 'ranks'} ${formatRanks(ranks)}: ${text || (ok ? 'done' : 'refused')}` : text)));
  }
}
