/** Prompt: the model in training goes on with a text, token by token, with what else it thought of and where it looked. */
import { postCommand, tellAcks } from '../../lib/commands.mjs';
import { make } from '../../lib/dom.mjs';
import { FrameSocket } from '../shared/frame_socket.mjs';
import { fillOptions } from '../shared/select_options.mjs';
import { HeadStrips } from './head_strips.mjs';
import {
  attentionOf, firstLayers, layersSeen, percent, promptOf, sharesOf, stateText, tokenShown, toldOf,
  WHATS, whyNot,
} from './prompt_text.mjs';

const CONNECTED_MS = 2000;
const FIELDS = [['tokens', 'new tokens', '16'], ['temperature', 'temperature', '0'], ['layers', 'attention of layers', '']];
const ABOUT = 'It runs on all ranks between two steps, in evaluation and without gradients; training waits meanwhile and goes on as if nothing had been. '
  + 'Where the job names no tokenizer, a prompt is numbers of tokens.';

export class PromptView {
  constructor(element, app) {
    Object.assign(this, { element, app, connected: null, asked: null, chosen: null, head: null, layer: null, wasFilled: false });
    this.#build();
    this.socket = new FrameSocket(app, () => this.#heard(), WHATS);
    this.asking = setInterval(() => { if (!document.hidden) this.#ask(); }, CONNECTED_MS);
    this.#ask();
  }

  destroy() {
    this.isGone = true;
    clearInterval(this.asking);
    cancelAnimationFrame(this.frame);
    this.socket.close();
    this.strips.destroy();
  }

  #build() {
    const parts = this.parts = {};
    for (const name of ['said', 'state']) parts[name] = make('p', { class: 'quiet', role: 'status' });
    parts.said.textContent = 'Looking for connected ranks.';
    parts.text = make('textarea', { 'aria-label': 'prompt', rows: '3', placeholder: 'a text, or numbers of tokens: 5 17 42', spellcheck: 'false', maxlength: '20000' });
    this.fields = Object.fromEntries(FIELDS.map(([name, label, value]) => [name, make('input', { 'aria-label': label, value, size: '6' })]));
    parts.run = make('button', { type: 'submit', class: 'primary' }, 'Run');
    parts.form = make('form', { hidden: '' }, [parts.text, ...FIELDS.map(([name, label]) => make('label', {}, [`${label} `, this.fields[name]])), parts.run]);
    parts.form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#run();
    });
    parts.acks = make('ul', { class: 'model-acks', 'aria-live': 'polite' });
    const controls = make('section', { class: 'panel model-controls model-prompt' }, [
      make('header', {}, make('h2', {}, 'Prompt the model in training')), parts.said, parts.form, make('p', { class: 'quiet' }, ABOUT), parts.acks]);
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
    parts.attentionSaid = make('p', { class: 'quiet' });
    parts.attention = make('section', { class: 'panel' }, [
      make('header', {}, [make('h2', {}, 'Where it looked'), make('label', {}, ['layer ', parts.layer]), make('label', {}, ['marked above: ', parts.head])]), parts.attentionSaid]);
    this.strips = new HeadStrips(parts.attention, { chosen: (head) => { this.head = this.head === head ? null : head; this.#show(); } });
  }

  async #ask() {
    try {
      const connected = await this.app.json(`${this.app.base}/api/connected?run=${encodeURIComponent(this.app.view.run)}`);
      if (this.isGone) return;
      this.connected = connected;
      const why = whyNot(connected);
      this.parts.form.hidden = why !== null;
      this.parts.said.textContent = why ?? `Ranks ${connected.ranks} are connected, step ${connected.step}.`;
      if (!this.wasFilled && connected.layers?.length) {
        this.wasFilled = true;
        this.fields.layers.value = firstLayers(connected.layers);
      }
      this.#say();
    } catch (error) {
      if (!this.isGone) this.parts.said.textContent = error.message;
    }
  }

  async #run() {
    const { parts } = this;
    try {
      const form = Object.fromEntries(Object.entries(this.fields).map(([name, field]) => [name, field.value]));
      const asked = promptOf({ ...form, text: parts.text.value });
      parts.run.disabled = true;
      const told = await postCommand(this.app, 'prompt', asked);
      if (this.isGone) return;
      parts.run.disabled = false;
      this.asked = told.error ? null : { id: told.id, step: told.step };
      this.chosen = null;
      if (told.error || told.step === null || told.acks?.some(({ ok }) => !ok)) tellAcks(parts.acks, told);
      else parts.acks.replaceChildren();
      this.#show();
    } catch (error) {
      tellAcks(parts.acks, { error: error.message });
    }
  }

  #heard() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      const drawn = this.socket.come;
      this.#show();
      this.socket.drawn(drawn);
    });
  }

  /** The prompt that was asked for here, else the newest. */
  #told() {
    const frames = this.socket.frames.values();
    return this.asked?.step ? toldOf(frames, this.asked.id) : toldOf(frames);
  }

  #say(told = this.#told()) {
    const { parts, asked } = this;
    parts.answer.hidden = !told && !asked;
    parts.state.textContent = stateText(asked, told, this.connected?.step ?? null);
    parts.state.classList.toggle('fault', Boolean(told?.end?.problem) || asked?.step === null);
  }

  #show() {
    const { parts } = this;
    const told = this.#told();
    this.#say(told);
    const token = told?.tokens[this.chosen ?? told.tokens.length - 1] ?? null;
    parts.two.hidden = !token;
    const shares = token ? this.#showAttention(told, token) : null;
    this.#showTokens(told, token, shares);
    if (token) this.#showTop(token);
  }

  #showTokens(told, token, shares) {
    const { parts } = this;
    const key = JSON.stringify([told?.id, told?.tokens.length, told?.prompt.length, token?.number, shares && [...shares].map((one) => one.toFixed(3))]);
    if (key === this.drawnKey) return;
    this.drawnKey = key;
    const mark = (element, at) => {
      if (shares && at < shares.length) element.style.setProperty('--looked', shares[at].toFixed(3));
      return element;
    };
    const begin = told?.prompt.length ?? 0;
    const hadFocus = parts.tokens.contains(document.activeElement);
    parts.tokens.replaceChildren(
      ...(told?.prompt ?? []).map(({ id, text }, at) => mark(make('span', { class: 'prompt-token', title: `token ${at}, id ${id}` }, tokenShown(text)), at)),
      ...(told?.tokens ?? []).map((one) => {
        const button = make('button', {
          class: 'prompt-token', 'aria-pressed': String(one === token), title: `token ${begin + one.number}, id ${one.id}, ${percent(one.share)}`,
          'aria-label': `${tokenShown(one.text)}, ${percent(one.share)}`,
        }, [tokenShown(one.text), make('small', {}, percent(one.share))]);
        button.addEventListener('click', () => { this.chosen = one.number; this.#show(); });
        return mark(button, begin + one.number);
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
      make('caption', { class: 'visually-hidden' }, 'The most probable tokens here; the one that was taken is marked'),
      make('thead', {}, make('tr', {}, ['token', 'id', 'probability', ''].map((text, at) => make('th', { scope: 'col', class: at === 1 || at === 2 ? 'number' : null }, text)))),
      make('tbody', {}, rows.map(row))]));
  }

  /** @returns {?Float32Array} attention to each token of the head that is chosen, or of all */
  #showAttention(told, token) {
    const { parts, socket } = this;
    const frames = [...socket.frames.values()];
    const layers = layersSeen(frames, told.id);
    if (!layers.includes(this.layer)) this.layer = layers[layers.length - 1] ?? null;
    const attention = this.layer === null ? null : attentionOf(frames, told.id, token.number, this.layer);
    const heads = attention?.heads ?? [];
    if (!heads.includes(this.head)) this.head = null;
    fillOptions(parts.layer, layers.map((one) => [one, String(one)]), this.layer);
    fillOptions(parts.head, [['', 'mean of all heads'], ...heads.map((one) => [one, `head ${one}`])], this.head ?? '');
    for (const name of ['layer', 'head']) parts[name].parentElement.hidden = !heads.length;
    parts.attentionSaid.textContent = heads.length ? 'A strip for each head, from the first token to the one before; a click marks it in the answer.'
      : layers.length ? 'No attention came with this token yet.' : 'No attention was asked for, or none of these layers computes it where it can be seen.';
    this.strips.show(attention, [...told.prompt, ...told.tokens].map(({ text }) => text), this.head);
    return attention && sharesOf(attention, this.head);
  }
}
