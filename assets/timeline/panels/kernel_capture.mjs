/** The timeline's button for kernels on demand: asks ranks of a running job, and says where the result is. */
import { postCommand, tellAcks } from '../../lib/commands.mjs';
import { make } from '../../lib/dom.mjs';
import { throttled } from '../../lib/fetcher.mjs';
import { formatRanks } from '../../lib/view_state.mjs';
import { button } from './dom.mjs';
import { ranksOf } from './toolbar.mjs';

const LOOK_MS = 5000;
const NEWS_MS = 2000;
const WAIT_MS = 180_000;
export const MOST_STEPS = 50;
const COST = 'Captured steps take longer. A capture ends by itself after its last step, 20 s or 1 GiB of memory; up to 200,000 events of a rank are shown.';

/** What the form asks for; raises Error with a sentence. `ranks` null: all. Pure. */
export function requestOf({ steps, ranks }) {
  const count = Number(steps.trim());
  if (!Number.isInteger(count) || count < 1 || count > MOST_STEPS) throw new Error(`Steps is ${JSON.stringify(steps.slice(0, 40))}; give 1 to ${MOST_STEPS}.`);
  if (['', 'all'].includes(ranks.trim())) return { steps: count, ranks: null };
  const found = ranksOf(ranks);
  if (!found) throw new Error(`Ranks are ${JSON.stringify(ranks.slice(0, 40))}; give numbers such as 0-3,8, or all.`);
  return { steps: count, ranks: found };
}

/**
 * What the marks tell of a capture that began with step `first` on these ranks. Pure.
 * @param {{attempt: number, rank: number, step: number, text: string}[]} captures newest first
 * @returns {{lines: string[], done: number[], shown: number[]}} done: ranks whose capture is over; shown: whose spans are there
 */
export function newsOf(captures, { first, attempt, ranks }) {
  const mine = captures.filter((one) => one.attempt === attempt && one.step >= first && ranks.includes(one.rank)).reverse();
  const isShown = ({ text }) => text.includes('are on the timeline');
  const isOver = (one) => isShown(one) || /not captured|is lost/.test(one.text);
  const ranksOfThose = (test) => [...new Set(mine.filter(test).map(({ rank }) => rank))].sort((a, b) => a - b);
  return { lines: mine.map(({ rank, text }) => `rank ${rank}: ${text}`), done: ranksOfThose(isOver), shown: ranksOfThose(isShown) };
}

/** @returns {{opener: HTMLElement, element: HTMLElement, destroy: () => void}} opener: the button that opens it */
export function makeCapture(timeline) {
  return new Capture(timeline);
}

class Capture {
  constructor(timeline) {
    Object.assign(this, { timeline, app: timeline.app, connected: null, timer: null });
    this.opener = button('Capture kernels', () => this.#toggle(), { hidden: true, 'aria-expanded': 'false', title: 'Operators and kernels of the next steps, from torch\'s profiler' });
    this.said = make('p', { class: 'quiet', role: 'status' });
    this.steps = make('input', { 'aria-label': 'steps to capture', size: 3, value: '3', inputMode: 'numeric' });
    this.ranks = make('input', { 'aria-label': 'ranks to capture', size: 11, placeholder: 'all' });
    this.form = make('form', { on: { submit: (event) => { event.preventDefault(); this.#capture(); } } },
      make('label', {}, 'next ', this.steps, ' steps'), make('label', {}, 'of ranks ', this.ranks),
      make('button', { type: 'submit', class: 'primary' }, 'Capture'));
    this.acks = make('ul', { 'aria-live': 'polite' });
    this.show = button('', () => this.#show(), { hidden: true });
    this.element = make('section', { class: 'tl-capture', 'aria-label': 'Capture kernels', hidden: true }, this.form, this.said, this.acks, this.show);
    this.look = throttled(() => this.#look(), LOOK_MS);
    this.onRun = ({ detail }) => { if (detail.run === this.app.view.run) this.look(); };
    this.app.addEventListener('run', this.onRun);
    this.look();
  }

  destroy() {
    this.isGone = true;
    this.look.cancel();
    clearTimeout(this.timer);
    this.app.removeEventListener('run', this.onRun);
  }

  /** Whether ranks are connected: without them there is no button. */
  async #look() {
    try {
      this.connected = await this.app.json(`${this.app.base}/api/connected?run=${encodeURIComponent(this.app.view.run)}`);
    } catch {
      return;  // the timeline itself says that the server is away
    }
    if (this.isGone) return;
    const { connected, may_ask: mayAsk, ranks } = this.connected;
    this.opener.hidden = !connected;
    this.form.hidden = !mayAsk || !connected;
    if (this.asked && connected) return;  // what became of it stands there
    this.said.textContent = !connected ? 'No rank of this run is connected any more.'
      : mayAsk ? `Ranks ${ranks} are connected. ${COST}` : 'Capturing kernels needs the role operator: ask whoever started the server for an operator\'s link.';
  }

  #toggle() {
    const isOpen = this.element.hidden;
    this.element.hidden = !isOpen;
    this.opener.setAttribute('aria-expanded', String(isOpen));
    if (!isOpen) return;
    if (!this.ranks.value) this.ranks.value = formatRanks(this.timeline.geometry.ranks);
    if (!this.form.hidden) this.steps.focus();
  }

  async #capture() {
    clearTimeout(this.timer);
    this.show.hidden = true;
    let request;
    try {
      request = requestOf({ steps: this.steps.value, ranks: this.ranks.value });
    } catch (error) {
      tellAcks(this.acks, { error: error.message });
      return;
    }
    const told = await postCommand(this.app, 'capture_kernels', { steps: request.steps }, request.ranks);
    tellAcks(this.acks, told);
    const took = (told.acks ?? []).filter(({ ok }) => ok);
    if (!took.length) return;
    const first = told.args.from;
    this.asked = { first, last: first + request.steps - 1, attempt: took[0].attempt, ranks: took.map(({ rank }) => rank), until: performance.now() + WAIT_MS };
    this.said.textContent = `Steps ${first} to ${this.asked.last} are captured. Their operators and kernels appear below, within seconds of the last step.`;
    this.#wait();
  }

  /** Until every rank has told how it ended. */
  async #wait() {
    const { asked } = this;
    let news = null;
    try {
      const { captures } = await this.app.json(this.app.api('model/captures', { attempt: asked.attempt }));
      news = newsOf(captures, asked);
    } catch { /* asked again */ }
    if (this.isGone || asked !== this.asked) return;
    if (news?.lines.length) this.acks.replaceChildren(...news.lines.map((text) => make('li', {}, text)));
    if (news?.shown.length) {
      this.show.hidden = false;
      this.show.textContent = `Show steps ${asked.first} to ${asked.last}`;
    }
    if (news?.done.length === asked.ranks.length) {
      this.said.textContent = `${news.shown.length ? 'Done: tracks “ops” and, where there are devices, one for each stream are in the lanes' : 'Nothing was captured'}. ${COST}`;
    } else if (performance.now() > asked.until) {
      this.said.textContent = 'Not all ranks have told how their capture ended; marks of kind kernel_capture will (page Query, question marks).';
    } else {
      this.timer = setTimeout(() => this.#wait(), NEWS_MS);
    }
  }

  #show() {
    const { first, last, ranks } = this.asked;
    const lanes = this.timeline.geometry.ranks;
    if (!ranks.some((rank) => lanes.includes(rank))) this.app.set({ ranks });
    this.app.set({ steps: [first, last], t: null }, { push: true });
  }
}
