/**
 * What all views share: the server's address, the view state, requests, and events of the run.
 * There is one instance per page; views get it as `app` in mount(element, app, options).
 */
import { unpackArrays } from './arrays.mjs';
import { emptyView, formatUrl, parseUrl } from './view_state.mjs';

const PUBLISH_MS = 150;
const WRITE_URL_MS = 120;

export class App extends EventTarget {
  /** @param {{base: string, pages: {name: string, title: string, key: string}[]}} config */
  constructor(config) {
    super();
    this.base = config.base;
    this.pages = config.pages;
    this.view = emptyView();
    this.scope = null;
    this.readUrl();
    window.addEventListener('popstate', () => this.readUrl());
  }

  /** Read the view state from the address bar. */
  readUrl() {
    const { page, run } = this.view;
    this.view = parseUrl(location.pathname, location.search, this.base, this.pages);
    if (page !== this.view.page || run !== this.view.run) this.showScope(null);  // until the page's views report theirs
    this.#announceView();
  }

  /**
   * Change the view state. The URL follows, and every view gets the event `view`.
   * @param {Partial<import('./view_state.mjs').View>} patch
   * @param {{push?: boolean}} options push: the back button undoes the change
   */
  set(patch, { push = false } = {}) {
    this.view = { ...this.view, ...patch };
    clearTimeout(this.urlTimer);
    if (push) {
      history.pushState(null, '', formatUrl(this.view, this.base));
    } else {  // browsers refuse more than about 100 replaceState in 30 s
      this.urlTimer = setTimeout(
        () => history.replaceState(history.state, '', formatUrl(this.view, this.base)), WRITE_URL_MS);
    }
    this.#announceView();
  }

  /**
   * A view reports the steps that its page shows, and why these; the strip and the scope chip say so.
   * @param {?{steps: [number, number], why: string}} scope
   */
  showScope(scope) {
    if (JSON.stringify(scope) === JSON.stringify(this.scope)) return;
    this.scope = scope;
    this.dispatchEvent(new CustomEvent('scope', { detail: scope }));
  }

  /** Open another page of the run, or another run; Dash renders it without a reload. */
  open(patch) {
    clearTimeout(this.urlTimer);
    const view = { ...this.view, ...patch };
    history.replaceState(history.state, '', formatUrl(this.view, this.base));
    history.pushState(null, '', formatUrl(view, this.base));
    window.dispatchEvent(new PopStateEvent('popstate'));
  }

  /** Link to the current view. */
  link(patch = {}) {
    return new URL(formatUrl({ ...this.view, ...patch }, this.base), location.origin).href;
  }

  #announceView() {
    this.dispatchEvent(new CustomEvent('view', { detail: this.view }));
    clearTimeout(this.publishTimer);
    this.publishTimer = setTimeout(() => this.publish('view', {
      path: new URL(this.link()).pathname, search: new URL(this.link()).search,
    }), PUBLISH_MS);
  }

  /** Set the `data` of a dcc.Store, so that Dash callbacks run. */
  publish(store, data) {
    if (window.dash_clientside?.set_props && document.getElementById('page')) {
      window.dash_clientside.set_props(store, { data });
    } else {
      setTimeout(() => this.publish(store, data), PUBLISH_MS);
    }
  }

  /** URL of a route of the run: app.api('timeline', {from: 0}). */
  api(name, params = {}, run = this.view.run) {
    const search = new URLSearchParams();
    for (const [key, value] of Object.entries(params)) {
      if (value !== null && value !== undefined && value !== '') search.set(key, String(value));
    }
    return `${this.base}/api/run/${encodeURIComponent(run)}/${name}?${search}`;
  }

  /** Whether a request can have an answer: a shared file has few (lib/offline_app.mjs). */
  has() {
    return true;
  }

  /** Whether there is a server that computes what nobody has asked yet. */
  get computes() {
    return true;
  }

  /**
   * Fetch a binary answer of app/web/arrays.py. Throws an Error with the server's message.
   * @param {string} url @param {AbortSignal} [signal]
   */
  async arrays(url, signal) {
    const answer = await this.#request(url, signal);
    return unpackArrays(await answer.arrayBuffer());
  }

  /** Fetch a JSON answer. Throws an Error with the server's message. */
  async json(url, signal) {
    return (await this.#request(url, signal)).json();
  }

  /**
   * Send a request that starts something. Pages of other sites cannot send the X-Rankscope header.
   * @param {string} url @param {object} content @param {AbortSignal} [signal]
   */
  async post(url, content, signal) {
    return this.#request(url, signal, {
      method: 'POST', body: JSON.stringify(content),
      headers: { 'Content-Type': 'application/json', 'X-Rankscope': '1' },
    });
  }

  async #request(url, signal, options = {}) {
    const answer = await fetch(url, { signal, credentials: 'same-origin', ...options }).catch((error) => {
      throw signal?.aborted ? error : new Error('The server cannot be reached.');
    });
    if (answer.ok) return answer;
    let message = `The server answered ${answer.status}.`;
    try {
      message = (await answer.json()).error ?? message;
    } catch { /* not JSON: a proxy answered */ }
    throw new Error(message);
  }
}
