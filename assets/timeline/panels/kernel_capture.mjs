/** Captures kernels on demand: sends the request to ranks of a running job and shows the result. */
import { postCommand, showAnswers } from '../../lib/commands.mjs';
import { make } from '../../lib/dom.mjs';
import { throttled } from '../../lib/fetcher.mjs';
import { stepsText } from '../../lib/value_text.mjs';
import { formatRanks } from '../../lib/view_state.mjs';
import { button } from './dom.mjs';
import { ranksOf } from './toolbar.mjs';

const POLL_CONNECTED_MS = 5000;
const POLL_CAPTURES_MS = 2000;
const WAIT_MS = 180_000;
export const MOST_STEPS = 50;
const COST = 'Captured steps take longer. A capture ends by itself after its last step, 20 s or 1 GiB of memory; up to 200,000 events of a rank are shown.';

/** The request in the form; `ranks` null: all. Throws an Error for people to read. Pure. */
export function requestOf({ steps, ranks }) {
  const count = Number(steps.trim());
  if (!Number.isInteger(count) || count < 1 || count > MOST_STEPS) throw new Error(`Steps is ${JSON.stringify(steps.slice(0, 40))}; give 1 to ${MOST_STEPS}.`);
  if (['', 'all'].includes(ranks.trim())) return { steps: count, ranks: null };
  const wanted = ranksOf(ranks);
  if (!wanted) throw new Error(`Ranks are ${JSON.stringify(ranks.slice(0, 40))}; give numbers such as 0-3,8, or all.`);
  return { steps: count, ranks: wanted };
}

/**
 * Progress of a capture that began with step `first` on these ranks, from the ranks' marks. Pure.
 * @param {{attempt: number, rank: number, step: number, text: string}[]} captures newest first
 * @returns {{lines: string[], done: number[], shown: number[]}} done: ranks whose capture has ended; shown: ranks whose spans have arrived
 */
export function captureProgress(captures, { first, attempt, ranks }) {
  const mine = captures.filter((mark) => mark.attempt === attempt && mark.step >= first && ranks.includes(mark.rank)).reverse();
  const isShown = ({ text }) => text.includes('are on the timeline');
  const isOver = (mark) => isShown(mark) || /not captured|is lost/.test(mark.text);
  const ranksWhere = (test) => [...new Set(mine.filter(test).map(({ rank }) => rank))].sort((a, b) => a - b);
  return { lines: mine.map(({ rank, text }) => `rank ${rank}: ${text}`), done: ranksWhere(isOver), shown: ranksWhere(isShown) };
}

/** @returns {{opener: HTMLElement, element: HTMLElement, destroy: () => void}} opener: the button that opens the form */
export function makeCapture(timeline) {
  return new Capture(timeline);
}

class Capture {
  constructor(timeline) {
    Object.assign(this, { timeline, app: timeline.app, connected: null, timer: null });
    this.opener = button('Capture kernels', () => this.#toggle(), { hidden: true, 'aria-expanded': 'false', title: 'Operators and kernels of the next steps, from torch\'s profiler' });
    this.status = make('p', { class: 'quiet', role: 'status' });
    this.steps = make('input', { 'aria-label': 'steps to capture', size: 3, value: '3', inputMode: 'numeric' });
    this.ranks = make('input', { 'aria-label': 'ranks to capture', size: 11, placeholder: 'all' });
    this.form = make('form', { on: { submit: (event) => { event.preventDefault(); this.#capture(); } } },
      make('label', {}, 'next ', this.steps, ' steps'), make('label', {}, 'of ranks ', this.ranks),
      make('button', { type: 'submit', class: 'primary' }, 'Capture'));
    this.acks = make('ul', { 'aria-live': 'polite' });
    this.show = button('', () => this.#show(), { hidden: true });
    this.element = make('section', { class: 'tl-capture', 'aria-label': 'Capture kernels', hidden: true }, this.form, this.status, this.acks, this.show);
    this.pollConnected = throttled(() => this.#loadConnected(), POLL_CONNECTED_MS);
    this.onRun = ({ detail }) => { if (detail.run === this.app.view.run) this.pollConnected(); };
    this.app.addEventListener('run', this.onRun);
    this.pollConnected();
  }

  destroy() {
    this.isDestroyed = true;
    this.pollConnected.cancel();
    clearTimeout(this.timer);
    this.app.removeEventListener('run', this.onRun);
  }

  /** Show the button if ranks are connected. */
  async #loadConnected() {
    try {
      this.connected = await this.app.json(`${this.app.base}/api/connected?run=${encodeURIComponent(this.app.view.run)}`);
    } catch {
      return;  // the timeline itself shows that the server cannot be reached
    }
    if (this.isDestroyed) return;
    const { connected, may_ask: mayAsk, ranks } = this.connected;
    this.opener.hidden = !connected;
    this.form.hidden = !mayAsk || !connected;
    if (this.capture && connected) return;  // the status shows the progress of the capture
    this.status.textContent = !connected ? 'No rank of this run is connected any longer.'
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
      showAnswers(this.acks, { error: error.message });
      return;
    }
    const reply = await postCommand(this.app, 'capture_kernels', { steps: request.steps }, request.ranks);
    showAnswers(this.acks, reply);
    const accepted = (reply.acks ?? []).filter(({ ok }) => ok);
    if (!accepted.length) return;
    const first = reply.args.from;
    this.capture = { first, last: first + request.steps - 1, attempt: accepted[0].attempt, ranks: accepted.map(({ rank }) => rank), until: performance.now() + WAIT_MS };
    this.status.textContent = `Capturing ${stepsText([first, this.capture.last])}. Their operators and kernels appear below, within seconds of the last step.`;
    this.#wait();
  }

  /** Poll until every rank has reported how its capture ended. */
  async #wait() {
    const { capture } = this;
    let progress = null;
    try {
      const { captures } = await this.app.json(this.app.api('model/captures', { attempt: capture.attempt }));
      progress = captureProgress(captures, capture);
    } catch { /* the next poll tries again */ }
    if (this.isDestroyed || capture !== this.capture) return;
    if (progress?.lines.length) this.acks.replaceChildren(...progress.lines.map((text) => make('li', {}, text)));
    if (progress?.shown.length) {
      this.show.hidden = false;
      this.show.textContent = `Show ${stepsText([capture.first, capture.last])}`;
    }
    if (progress?.done.length === capture.ranks.length) {
      this.status.textContent = `${progress.shown.length ? 'Done: tracks “ops” and, where there are devices, one for each stream are in the lanes' : 'Nothing was captured'}. ${COST}`;
    } else if (performance.now() > capture.until) {
      this.status.textContent = 'Some ranks have not reported how their capture ended; their marks of kind kernel_capture will (page Query, saved query marks).';
    } else {
      this.timer = setTimeout(() => this.#wait(), POLL_CAPTURES_MS);
    }
  }

  #show() {
    const { first, last, ranks } = this.capture;
    const lanes = this.timeline.geometry.ranks;
    if (!ranks.some((rank) => lanes.includes(rank))) this.app.set({ ranks });
    this.app.set({ steps: [first, last], t: null }, { push: true });
  }
}
