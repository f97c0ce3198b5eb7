/**
 * The controls around every page: buttons marked data-act, data-copy and data-open, the keys of
 * keys.mjs, the drawer, the live chip, and links to exactly what is on screen.
 *
 * Before a link is made, `app` dispatches 'link' {patch}: a view that shows something the URL does not
 * contain (lanes, a time window it chose itself) adds it to patch, so that the link opens the same
 * view later.
 */
import { stateText } from '../sentences.mjs';
import { FLEET, parseUrl } from '../view_state.mjs';
import { copyText, toast, toggleHelp } from './dialogs.mjs';
import { findingAfter, Keys } from './keys.mjs';
import { followSystem, toggleTheme } from './theme.mjs';

const TICK_MS = 1000;

/** "0.4 s", "12 s", "3 min", "2 h", "4 d" @param {?number} seconds */
export function age(seconds) {
  if (seconds === null || seconds === undefined) return '';
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  for (const [size, unit] of [[86400, 'd'], [3600, 'h'], [60, 'min']]) {
    if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${Math.floor(seconds)} s`;
}

/** Text of the live chip; a job that has ended may also have failed. @param {Object} live detail of 'live' @param {number} sinceS its age */
export function liveText(live, sinceS) {
  const state = stateText(live.state ?? 'unknown');
  if (!live.connected) return state === 'ended' ? state : 'reconnecting';
  if (live.paused) return 'paused';
  if (state === 'ended' || live.data_age_s === null) return state;
  return `${state === 'running' ? 'live' : state} · data ${age(live.data_age_s + sinceS)} old`;
}

/**
 * What a link adds to the URL: the attempt on screen and the finding in the banner. Pure.
 * Steps without an attempt are those of the newest attempt that has them, so they need none.
 * @param {import('../view_state.mjs').View} view @param {{attempt?: string, finding?: string}} seen
 */
export function linkPatch(view, { attempt, finding }) {
  const patch = {};
  if (view.run !== null && view.attempt === null && view.steps === null && attempt) patch.attempt = Number(attempt);
  if (view.finding === null && finding) patch.finding = finding;
  return patch;
}

export class PageControls {
  /** @param {import('../app.mjs').App} app */
  constructor(app) {
    this.app = app;
    this.keys = new Keys(app.pages);
    this.live = { connected: false, paused: false, data_age_s: null, state: null };
    this.liveReceivedMs = performance.now();
    this.hasPendingPage = false;  // a page was requested while the server was away
    document.addEventListener('click', (event) => this.#click(event));
    document.addEventListener('keydown', (event) => this.#key(event));
    document.addEventListener('change', (event) => this.#change(event));
    app.addEventListener('live', ({ detail }) => {
      const before = this.live.state;
      this.live = detail;
      // silence is no news of the run, and yet the banner must not stay green
      if (before !== null && before !== detail.state) this.app.publish('pulse', { run: this.app.view.run, state: detail.state });
      this.liveReceivedMs = performance.now();
      this.#showLive();
      this.#refreshTopBar();
      this.#openPendingPage();
    });
    setInterval(() => this.#showLive(), TICK_MS);
    app.addEventListener('view', () => { this.#showTitle(); this.#notePendingPage(); });
    this.#showTitle();
    followSystem();
    new MutationObserver(() => this.#publishTheme()).observe(
      document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
    this.#publishTheme();
  }

  /** Link to exactly what is on screen. */
  link() {
    const patch = linkPatch(this.app.view, {
      attempt: document.querySelector('.topbar')?.dataset.attempt,
      finding: document.querySelector('.banner[data-finding]')?.dataset.finding,
    });
    this.app.dispatchEvent(new CustomEvent('link', { detail: { patch } }));
    return this.app.link(patch);
  }

  async copy(text, what = 'this page with its steps, ranks, selection and marks') {
    const done = await copyText(text);
    toast(done ? `Link copied: it opens ${what}.` : `Copy this link by hand: ${text}`);
  }

  /** Carry out the action of a button or a key. @returns {boolean} whether there is such an action */
  act(name) {
    const acts = {
      theme: () => toggleTheme(),
      help: () => toggleHelp(this.app.pages),
      drawer: () => this.#drawer(),
      'close-drawer': () => this.#drawer(false),
      pause: () => (this.live.paused ? this.app.live?.resume() : this.app.live?.pause()),
      'copy-link': () => this.copy(this.link()),
      'finding-next': () => this.#showNextFinding(1),
      'finding-previous': () => this.#showNextFinding(-1),
    };
    if (!acts[name] || (this.app.view.run === null && !['theme', 'help'].includes(name))) return false;
    acts[name]();
    return true;
  }

  #click(event) {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const target = event.target.closest?.('[data-act],[data-copy],[data-open]');
    if (!target) return;
    if (target.dataset.open) this.#open(target.dataset.open);
    else if (target.dataset.copy) this.copy(new URL(target.dataset.copy, location.origin).href, 'the view that shows this finding');
    else this.act(target.dataset.act);
    event.preventDefault();
  }

  #open(address) {
    const url = new URL(address, location.origin);
    if (window.innerWidth < 900) this.#drawer(false);  // the drawer would cover what it opens
    this.app.open(parseUrl(url.pathname, url.search, this.app.base, this.app.pages));
  }

  #key(event) {
    const action = this.keys.action(event, performance.now());
    if (!action) return;
    if (action.act === 'escape') {
      if (this.#isOpen()) this.#drawer(false);
    } else if (action.act === 'page') {
      if (this.app.view.run !== null) this.app.open({ page: action.page });
    } else if (this.act(action.act)) {
      event.preventDefault();
    }
  }

  #change(event) {
    if (event.target.id !== 'attempt-chooser') return;
    const { value } = event.target;
    this.app.set({ attempt: value === '' ? null : Number(value), t: null }, { push: true });
  }

  #showNextFinding(by) {
    const ids = (document.getElementById('findings-button')?.dataset.ids ?? '').split(' ').filter(Boolean);
    const next = findingAfter(ids, this.app.view.finding, by);
    if (next === null) toast('There is no finding.');
    else this.app.set({ finding: next }, { push: true });
  }

  #isOpen() {
    return document.getElementById('drawer')?.hidden === false;
  }

  #drawer(open = !this.#isOpen()) {
    const drawer = document.getElementById('drawer');
    if (!drawer) return;
    const hadFocus = drawer.contains(document.activeElement);
    drawer.hidden = !open;
    document.body.classList.toggle('with-drawer', open);
    const button = document.getElementById('findings-button');
    button?.setAttribute('aria-expanded', String(open));
    if (open) drawer.focus();
    else if (hadFocus) button?.focus();
  }

  #showTitle() {
    const { run, page } = this.app.view;
    document.title = run === null ? (page === FLEET ? 'Fleet · rankscope' : 'rankscope') : `${run} · ${page} · rankscope`;
  }

  #publishTheme() {
    this.app.publish('theme', document.documentElement.dataset.theme);
  }

  /** Have the top bar drawn again if the attempt or the layout of the run has changed. */
  #refreshTopBar() {
    const { bar, paused } = this.live;
    const shownBar = document.querySelector('.topbar')?.dataset.bar;
    if (shownBar !== undefined && bar && bar !== shownBar && !paused) this.app.publish('bar', bar);
  }

  /** Whether the URL names another page than Dash has drawn. */
  #isPageOutdated() {
    const shown = document.querySelector('.topbar [data-page][aria-current="page"]')?.dataset.page;
    return shown !== undefined && shown !== this.app.view.page;
  }

  /** Dash requests a page only once: a request while the server is away would never be answered. */
  #notePendingPage() {
    this.hasPendingPage = !this.live.connected && this.live.state !== null && this.#isPageOutdated();
    if (this.hasPendingPage) toast('The server cannot be reached; this page opens when it is back.');
  }

  #openPendingPage() {
    if (!this.live.connected || !this.hasPendingPage) return;
    this.hasPendingPage = false;
    if (this.#isPageOutdated()) location.reload();
  }

  #showLive() {
    const chooser = document.getElementById('attempt-chooser');
    if (chooser && document.activeElement !== chooser) chooser.value = String(this.app.view.attempt ?? '');
    const chip = document.getElementById('live-state');
    if (!chip || this.live.state === null) return;
    const text = liveText(this.live, (performance.now() - this.liveReceivedMs) / 1000);
    if (chip.textContent !== text) chip.textContent = text;
    chip.className = `chip state ${this.live.connected ? this.live.state : 'silent'}`;
    chip.title = this.live.problem ?? '';
    const pause = document.getElementById('pause-button');
    if (!pause) return;
    pause.hidden = this.live.state === 'finished' && !this.live.paused;
    pause.textContent = this.live.paused ? 'Resume' : 'Pause';
    pause.setAttribute('aria-pressed', String(this.live.paused));
  }
}
