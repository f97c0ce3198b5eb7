/** Prompt: the model in training continues a text, token by token, with alternatives and attention. */
import { postCommand, showAnswers } from '../../lib/commands.mjs';
import { make } from '../../lib/dom.mjs';
import { FrameSocket } from '../shared/frame_socket.mjs';
import { fillOptions } from '../shared/select_options.mjs';
import { HeadStrips } from './head_strips.mjs';
import {
  attentionOf, firstLayers, attentionLayers, percent, promptOf, sharesOf, stateText, tokenShown, answerOf,
  KINDS, whyNotPromptable,
} from './prompt_text.mjs';

const POLL_MS = 2000;
const FIELDS = [['tokens', 'new tokens', '16'], ['temperature', 'temperature', '0'], ['layers', 'attention of layers', '']];
const ABOUT = 'The prompt runs on all ranks between two steps, in evaluation mode and without gradients; training waits meanwhile and then continues unchanged. '
  + 'If the job has no tokenizer, type token ids.';

export class PromptView {
  constructor(element, app) {
    Object.assign(this, { element, app, connected: null, sent: null, chosen: null, head: null, layer: null, wasFilled: false });
    this.#build();
    this.socket = new FrameSocket(app, () => this.#redrawSoon(), KINDS);
    this.pollTimer = setInterval(() => { if (!document.hidden) this.#loadConnected(); }, POLL_MS);
    this.#loadConnected();
  }

  destroy() {
    this.isDestroyed = true;
    clearInterval(this.pollTimer);
    cancelAnimationFrame(this.frame);
    this.socket.close();
    this.strips.destroy();
  }

  #build() {
    const parts = this.parts = {};
    for (const name of ['status', 'state']) parts[name] = make('p', { class: 'quiet', role: 'status' });
    parts.status.textContent = 'Looking for connected ranks.';
    parts.text = make('textarea', { 'aria-label': 'prompt', rows: '3', placeholder: 'text, or token ids: 5 17 42', spellcheck: 'false', maxlength: '20000' });
    this.fields = Object.fromEntries(FIELDS.map(([name, label, value]) => [name, make('input', { 'aria-label': label, value, size: '6' })]));
    parts.run = make('button', { type: 'submit', class: 'primary' }, 'Run');
    parts.form = make('form', { hidden: '' }, [parts.text, ...FIELDS.map(([name, label]) => make('label', {}, [`${label} `, this.fields[name]])), parts.run]);
    parts.form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#run();
    });
    parts.acks = make('ul', { class: 'model-acks', 'aria-live': 'polite' });
    const controls = make('section', { class: 'panel model-controls model-prompt' }, [
      make('header', {}, make('h2', {}, 'Prompt the model in training')), parts.status, parts.form, make('p', { class: 'quiet' }, ABOUT), parts.acks]);
    parts.tokens = make('div', { class: 'prompt-tokens', role: 'group', 'aria-label': 'tokens' });
    parts.answer = make('section', { class: 'panel', hidden: '' }, [make('header', {}, make('h2', {}, 'Answer')), parts.state, parts.tokens]);
    parts.topTitle = make('h2');
    parts.top = make('div', { class: 'scroll' });
    parts.alternatives = make('section', { class: 'panel' }, [make('header', {}, parts.topTitle), parts.top]);
    this.#buildAttention();
    parts.two = make('div', { class: 'model-two', hidden: '' }, [parts.alternatives, parts.attention]);
    this.element.replaceChildren(controls, parts.answer, parts.two);
  }

  #buildAttention() {
    const { parts } = this;
    const select = (label, changed) => {
      const made = make('select', { 'aria-label': label });
      made.addEventListener('change', () => { changed(made.value); this.#show(); });
      return made;
    };
    parts.layer = select('layer', (value) => { this.layer = Number(value); });
    parts.head = select('head', (value) => { this.head = value === '' ? null : Number(value); });
    parts.attentionNote = make('p', { class: 'quiet' });
    parts.attention = make('section', { class: 'panel' }, [
      make('header', {}, [make('h2', {}, 'Attention'), make('label', {}, ['layer ', parts.layer]), make('label', {}, ['marked above: ', parts.head])]), parts.attentionNote]);
    this.strips = new HeadStrips(parts.attention, { chosen: (head) => { this.head = this.head === head ? null : head; this.#show(); } });
  }

  async #loadConnected() {
    try {
      const connected = await this.app.json(`${this.app.base}/api/connected?run=${encodeURIComponent(this.app.view.run)}`);
      if (this.isDestroyed) return;
      this.connected = connected;
      const why = whyNotPromptable(connected);
      this.parts.form.hidden = why !== null;
      this.parts.status.textContent = why ?? `Ranks ${connected.ranks} are connected, step ${connected.step}.`;
      if (!this.wasFilled && connected.layers?.length) {
        this.wasFilled = true;
        this.fields.layers.value = firstLayers(connected.layers);
      }
      this.#showState();
    } catch (error) {
      if (!this.isDestroyed) this.parts.status.textContent = error.message;
    }
  }

  async #run() {
    const { parts } = this;
    try {
      const form = Object.fromEntries(Object.entries(this.fields).map(([name, field]) => [name, field.value]));
      const args = promptOf({ ...form, text: parts.text.value });
      parts.run.disabled = true;
      const reply = await postCommand(this.app, 'prompt', args);
      if (this.isDestroyed) return;
      parts.run.disabled = false;
      this.sent = reply.error ? null : { id: reply.id, step: reply.step };
      this.chosen = null;
      if (reply.error || reply.step === null || reply.acks?.some(({ ok }) => !ok)) showAnswers(parts.acks, reply);
      else parts.acks.replaceChildren();
      this.#show();
    } catch (error) {
      showAnswers(parts.acks, { error: error.message });
    }
  }

  #redrawSoon() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      const drawn = this.socket.numReceived;
      this.#show();
      this.socket.drawn(drawn);
    });
  }

  /** Answer to the prompt sent from here, else to the newest. */
  #answer() {
    const frames = this.socket.frames.values();
    return this.sent?.step ? answerOf(frames, this.sent.id) : answerOf(frames);
  }

  #showState(answer = this.#answer()) {
    const { parts, sent } = this;
    parts.answer.hidden = !answer && !sent;
    parts.state.textContent = stateText(sent, answer, this.connected?.step ?? null);
    parts.state.classList.toggle('fault', Boolean(answer?.end?.problem) || sent?.step === null);
  }

  #show() {
    const { parts } = this;
    const answer = this.#answer();
    this.#showState(answer);
    const token = answer?.tokens[this.chosen ?? answer.tokens.length - 1] ?? null;
    parts.two.hidden = !token;
    const shares = token ? this.#showAttention(answer, token) : null;
    this.#showTokens(answer, token, shares);
    if (token) this.#showTop(token);
  }

  #showTokens(answer, token, shares) {
    const { parts } = this;
    const key = JSON.stringify([answer?.id, answer?.tokens.length, answer?.prompt.length, token?.number, shares && [...shares].map((share) => share.toFixed(3))]);
    if (key === this.drawnKey) return;
    this.drawnKey = key;
    const mark = (element, index) => {
      if (shares && index < shares.length) element.style.setProperty('--attention', shares[index].toFixed(3));
      return element;
    };
    const begin = answer?.prompt.length ?? 0;
    const hadFocus = parts.tokens.contains(document.activeElement);
    parts.tokens.replaceChildren(
      ...(answer?.prompt ?? []).map(({ id, text }, index) => mark(make('span', { class: 'prompt-token', title: `token ${index}, id ${id}` }, tokenShown(text)), index)),
      ...(answer?.tokens ?? []).map((made) => {
        const button = make('button', {
          class: 'prompt-token', 'aria-pressed': String(made === token), title: `token ${begin + made.number}, id ${made.id}, ${percent(made.share)}`,
          'aria-label': `${tokenShown(made.text)}, ${percent(made.share)}`,
        }, [tokenShown(made.text), make('small', {}, percent(made.share))]);
        button.addEventListener('click', () => { this.chosen = made.number; this.#show(); });
        return mark(button, begin + made.number);
      }));
    if (hadFocus) parts.tokens.querySelector('[aria-pressed="true"]')?.focus();
  }

  #showTop(token) {
    const { parts } = this;
    parts.topTitle.textContent = `Instead of ${tokenShown(token.text)}`;
    const most = Math.max(token.share, ...token.top.map(({ share }) => share)) || 1;
    const row = ({ id, text, share }) => {
      const bar = make('i', { class: 'prompt-bar' });
      bar.style.width = `${(100 * share / most).toFixed(2)}%`;
      return make('tr', { class: id === token.id ? 'prompt-taken' : null }, [
        make('td', {}, make('b', {}, tokenShown(text))), make('td', { class: 'number' }, String(id)), make('td', { class: 'number' }, percent(share)), make('td', { class: 'prompt-bars' }, bar)]);
    };
    const rows = token.top.some(({ id }) => id === token.id) ? token.top : [token, ...token.top];
    parts.top.replaceChildren(make('table', {}, [
      make('caption', { class: 'visually-hidden' }, 'The most probable tokens here; the chosen one is marked'),
      make('thead', {}, make('tr', {}, ['token', 'id', 'probability', ''].map((text, column) => make('th', { scope: 'col', class: column === 1 || column === 2 ? 'number' : null }, text)))),
      make('tbody', {}, rows.map(row))]));
  }

  /** @returns {?Float32Array} attention to each token of the chosen head, or the mean of all heads */
  #showAttention(answer, token) {
    const { parts, socket } = this;
    const frames = [...socket.frames.values()];
    const layers = attentionLayers(frames, answer.id);
    if (!layers.includes(this.layer)) this.layer = layers[layers.length - 1] ?? null;
    const attention = this.layer === null ? null : attentionOf(frames, answer.id, token.number, this.layer);
    const heads = attention?.heads ?? [];
    if (!heads.includes(this.head)) this.head = null;
    fillOptions(parts.layer, layers.map((layer) => [layer, String(layer)]), this.layer);
    fillOptions(parts.head, [['', 'mean of all heads'], ...heads.map((head) => [head, `head ${head}`])], this.head ?? '');
    for (const name of ['layer', 'head']) parts[name].parentElement.hidden = !heads.length;
    parts.attentionNote.textContent = heads.length ? 'A strip for each head, from the first token to the one before; click to mark its attention in the answer.'
      : layers.length ? 'The attention of this token has not arrived yet.' : 'No attention was requested, or none of these layers computes it where hooks can see it.';
    this.strips.show(attention, [...answer.prompt, ...answer.tokens].map(({ text }) => text), this.head);
    return attention && sharesOf(attention, this.head);
  }
}
