/** Panel of Inspect for the logits: probabilities of the next tokens, the true one and its loss. */
import { make } from '../../lib/dom.mjs';
import { nameText } from '../shared/frame.mjs';
import { setModel } from '../shared/model_state.mjs';
import { formatNumber } from '../../lib/value_text.mjs';
import { LossBars } from './loss_bars.mjs';
import { meanLoss, nextTokens } from './tokens.mjs';

const nameOf = ({ id, text }) => nameText(text ?? id ?? '');

export class NextTokens {
  constructor(app) {
    Object.assign(this, { app, rows: [], names: [] });
    this.title = make('h2', {}, 'Next tokens');
    this.about = make('p', { class: 'quiet' });
    this.list = make('div', { class: 'scroll' });
    this.element = make('section', { class: 'panel model-next', hidden: '' }, [make('header', {}, [this.title]), this.about]);
    this.bars = new LossBars(this.element, { chosen: (token) => setModel(app, { token }) });
    this.element.append(this.list);
    this.follow = () => this.#draw();
    app.addEventListener('view', this.follow);
  }

  destroy() {
    this.app.removeEventListener('view', this.follow);
    this.bars.destroy();
  }

  hide() {
    this.element.hidden = true;
  }

  /**
   * @param {?import('../shared/frame.mjs').Frame} probabilities @param {?import('../shared/frame.mjs').Frame} losses @param {(string|number)[]} names
   * @param {string} why there is neither, if known
   */
  show(probabilities, losses, names, why = '') {
    this.rows = nextTokens(probabilities, losses);
    this.names = names;
    this.element.hidden = false;
    if (!this.rows.length) {
      this.title.textContent = 'Next tokens';
      this.about.textContent = why ? `The vocabulary is spread over ranks: ${why}.` : 'Neither probabilities nor losses of tokens were recorded in this step.';
      this.bars.show([], [], null);
      this.list.replaceChildren();
      return;
    }
    const { step } = probabilities ?? losses;
    const mean = meanLoss(this.rows);
    this.title.textContent = `Next tokens, step ${step}`;
    this.about.textContent = mean === null
      ? 'The true next tokens are not known: no loss was computed by cross_entropy, and no ids were seen.'
      : `Mean loss of these tokens ${formatNumber(mean)}, perplexity ${formatNumber(Math.exp(mean))}. Click a bar to list the probabilities of the next token.`;
    this.#draw();
  }

  #draw() {
    if (this.app.view.page !== 'model' || this.element.hidden || !this.rows.length) return;
    const { token } = this.app.view.model;
    const wanted = token === undefined ? null : Number(token);
    const row = this.rows.find((candidate) => candidate.token === wanted) ?? this.rows.find(({ top }) => top.length) ?? this.rows[0];
    this.bars.show(this.rows, this.names, row.token);
    this.list.replaceChildren(this.#table(row));
  }

  #table({ token, top, truth, loss }) {
    const rows = top.map((label) => this.#row(label, label.share, label.isTrue));
    if (truth && !top.some(({ isTrue }) => isTrue)) rows.push(this.#row(truth, Math.exp(-loss), true));
    const after = this.names[token] === undefined ? `token ${token}` : `token ${token} ${nameText(this.names[token])}`;
    return make('table', {}, [
      make('caption', {}, `After ${after}: ${truth ? `the next is ${nameOf(truth)}, loss ${formatNumber(loss)}` : 'the next is not known'}`),
      make('thead', {}, make('tr', {}, ['next token', 'id', 'probability', ''].map((name) => make('th', { scope: 'col' }, name)))),
      make('tbody', {}, rows),
    ]);
  }

  #row(label, share, isTrue) {
    const bar = make('i', { class: 'next-bar' });
    bar.style.width = `${100 * Math.min(1, share)}%`;
    return make('tr', { class: isTrue ? 'is-true' : null }, [
      make('td', {}, label.text === null ? '' : nameText(label.text)), make('td', { class: 'number' }, String(label.id ?? '')),
      make('td', { class: 'number' }, formatNumber(Number(share.toPrecision(3)))),
      make('td', { class: 'next-cell' }, [bar, ...(isTrue ? [make('span', {}, 'true')] : [])]),
    ]);
  }
}
