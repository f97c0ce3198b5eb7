/**
 * Follows the run in view through the WebSocket of app/routes/live/status.py. Dispatches on `app`:
 * 'run' {run, version, state, last_step}: the run has new data; at most every RUN_MS;
 * 'live' {connected, paused, data_age_s, state, problem, bar}: with each message and each change of these;
 * and publishes the store `pulse` {run, version, state}, on which Dash updates its texts and numbers:
 * when a rank has finished a step or the state has changed, at most every PULSE_MS.
 * A hidden tab has no socket and catches up when it is shown again. While paused only 'live' is dispatched.
 */

export const RUN_MS = 250;
export const PULSE_MS = 1000;  // Dash updates texts and numbers: people do not read them faster
const SILENT_PULSE_MS = 5000;
const BACKOFF_MS = [200, 400, 800, 1600, 3000];
const SILENT_MS = 6000;  // the server sends a message each second
const RECENT_S = 5;
const REASON = 'loaded again because';  // key of this tab's storage
const UNKNOWN = 4404;  // the server's close code for a run that does not exist (yet)

/** Milliseconds before the next try; `spread` from 0 to 1 keeps many tabs from coming at once. */
export function backoffMs(tries, spread = 0.5) {
  return BACKOFF_MS[Math.min(tries, BACKOFF_MS.length - 1)] * (0.75 + 0.5 * spread);
}

/** URL of the socket for the URL of a page. */
export function socketUrl(pageUrl, base, run) {
  const url = new URL(`${base}/api/live`, pageUrl);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  if (run !== null) url.searchParams.set('run', run);
  return url.href;
}

/** Calls back at most every `everyMs`, and with the newest value at the end. */
export class Throttle {
  constructor(everyMs, callback, now = () => performance.now()) {
    Object.assign(this, { everyMs, callback, now, last: -Infinity, timer: null });
  }

  push(value) {
    this.value = value;
    if (this.timer !== null) return;
    const wait = this.last + this.everyMs - this.now();
    if (wait <= 0) this.#fire();
    else this.timer = setTimeout(() => this.#fire(), wait);
  }

  cancel() {
    clearTimeout(this.timer);
    this.timer = null;
  }

  #fire() {
    this.timer = null;
    this.last = this.now();
    this.callback(this.value);
  }
}

/**
 * Whether a message has something new for a page.
 * @param {{version: number, data_age_s: ?number}} message
 * @param {?number} version of the last message on this socket, null: this is the first
 * @param {boolean} wasConnected whether there was a socket for this run before: a restarted server
 *   counts from 1 again, and a tab that was hidden has missed messages
 */
export function isNews(message, version, wasConnected) {
  if (version !== null) return message.version !== version;
  return wasConnected || (message.data_age_s !== null && message.data_age_s < RECENT_S);
}

/**
 * Whether to refresh numbers that depend on the clock although nothing was written: while ranks fall
 * silent one after another there is no new data, and the state changes to `silent` only once.
 */
export function isRefreshDue(message, sinceMs) {
  return message.state === 'silent' && sinceMs >= SILENT_PULSE_MS;
}

/** Whether the import of the run has finished: times may count from another origin now. */
export function isImportFinished(before, now) {
  return before === 'importing' && now !== 'importing';
}

/**
 * Whether a page that says why there is nothing to show says something else than the server does by
 * now: how much of a run is fetched, or that it cannot be.
 *
 * @param {string | undefined} shown what the page says
 * @param {string} reason the beginning of what the server says
 * @param {?string} reloaded for which reason the page was loaded again last: never twice for one
 */
export function isOutdated(shown, reason, reloaded) {
  return shown !== undefined && !shown.includes(reason) && reason !== reloaded;
}

/** Changes when texts and numbers of a page may change; with each version until a step is finished. */
export function contentKey({ version, state, progress, problem, bar }) {
  return JSON.stringify([state, progress || version, problem, bar]);
}

export class Live {
  #socket = null;
  #run;  // of the socket
  #tries = 0;
  #version = null;  // of the last message on this socket
  #wasConnected = false;
  #wasUnknown = false;
  #heldBack = null;  // message that arrived while paused
  #last = {};
  #reconnectTimer = null;
  #pulsedAt = -Infinity;
  #pulsedKey = null;  // contentKey of the last pulse
  #watchdog = null;

  /** @param {import('./app.mjs').App} app */
  constructor(app) {
    this.app = app;
    this.paused = false;
    this.connected = false;
    this.runThrottle = new Throttle(RUN_MS, (detail) => this.#dispatch('run', detail));
    this.pulseThrottle = new Throttle(PULSE_MS, (data) => app.publish('pulse', data));
    app.addEventListener('view', () => { if (app.view.run !== this.#run) this.#start(); });
    document.addEventListener('visibilitychange', () => this.#follow());
    window.addEventListener('online', () => this.#follow());
    window.addEventListener('pagehide', () => this.#close());
    window.addEventListener('pageshow', (event) => { if (event.persisted) this.#follow(); });
    this.#start();
  }

  /** Keep the page as it is; the age of its data keeps counting. */
  pause() {
    this.paused = true;
    this.runThrottle.cancel();
    this.pulseThrottle.cancel();
    this.#dispatchLive();
  }

  /** Follow again, from the newest message. */
  resume() {
    this.paused = false;
    const heldBack = this.#heldBack;
    this.#heldBack = null;
    if (heldBack) this.#forward(heldBack);
    this.#dispatchLive();
  }

  /** Start with another run, or with the first one. */
  #start() {
    this.#close();
    this.#run = this.app.view.run;
    this.#version = null;
    this.#wasConnected = false;
    this.#wasUnknown = false;
    this.#heldBack = null;
    this.#last = {};
    this.#pulsedKey = null;
    this.#tries = 0;
    this.runThrottle.cancel();
    this.pulseThrottle.cancel();
    this.#follow();
  }

  #follow() {
    if (document.hidden) {
      this.#close();
    } else if (this.#socket === null) {
      this.#tries = 0;
      this.#connect();
    }
  }

  #connect() {
    clearTimeout(this.#reconnectTimer);
    const socket = new WebSocket(socketUrl(location.href, this.app.base, this.#run));
    this.#socket = socket;
    this.#restartWatchdog();
    socket.onmessage = (event) => { if (socket === this.#socket) this.#receive(event.data); };
    socket.onclose = (event) => { if (socket === this.#socket) this.#disconnected(event.code, event.reason); };
  }

  #close() {
    clearTimeout(this.#reconnectTimer);
    clearTimeout(this.#watchdog);
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
    this.#version = null;
    this.connected = false;
    this.#dispatchLive();
  }

  /** A broken network sends no close event: give the socket up if no message arrives in time. */
  #restartWatchdog() {
    clearTimeout(this.#watchdog);
    const socket = this.#socket;
    this.#watchdog = setTimeout(() => {
      if (socket !== this.#socket) return;
      this.#disconnected(0);
      socket.close();
    }, SILENT_MS);
  }

  #disconnected(code, reason = '') {
    clearTimeout(this.#watchdog);
    this.#socket = null;
    this.#version = null;
    this.connected = false;
    if (code === UNKNOWN && this.#last.state === 'importing') {  // the import was cancelled, or the whole run is indexed now
      location.reload();
      return;
    }
    const shown = document.querySelector('.panel.sentence')?.textContent;
    if (code === UNKNOWN && isOutdated(shown, reason, sessionStorage.getItem(REASON))) {
      sessionStorage.setItem(REASON, reason);
      location.reload();
      return;
    }
    this.#wasUnknown ||= code === UNKNOWN;
    this.#dispatchLive();
    if (document.hidden) return;
    const wait = code === UNKNOWN ? Math.max(1000, backoffMs(this.#tries)) : backoffMs(this.#tries, Math.random());
    this.#tries += 1;
    this.#reconnectTimer = setTimeout(() => this.#connect(), wait);
  }

  #receive(text) {
    this.#restartWatchdog();
    const message = JSON.parse(text);
    // the page shows that there is no such run, or its first part: now the whole run is there
    if (this.#wasUnknown || isImportFinished(this.#last.state, message.state)) {
      location.reload();
      return;
    }
    this.connected = true;
    this.#tries = 0;
    const news = isNews(message, this.#version, this.#wasConnected);
    this.#version = message.version;
    this.#wasConnected = true;
    const stateChanged = message.state !== this.#last.state && this.#last.state !== undefined;
    this.#last = message;
    if (news || stateChanged) {
      if (this.paused) this.#heldBack = message;
      else this.#forward(message);
    } else if (!this.paused && isRefreshDue(message, performance.now() - this.#pulsedAt)) {
      this.#pulse(message);
    }
    this.#dispatchLive();
  }

  #forward(message) {
    const { run, version, state, last_step } = message;
    if (run !== null) this.runThrottle.push({ run, version, state, last_step });
    if (contentKey(message) !== this.#pulsedKey) this.#pulse(message);
  }

  #pulse(message) {
    const { run, version, state } = message;
    this.#pulsedAt = performance.now();
    this.#pulsedKey = contentKey(message);
    this.pulseThrottle.push({ run, version, state });
  }

  #dispatchLive() {
    const { data_age_s = null, state = null, problem = null, bar = null } = this.#last;
    this.#dispatch('live', {
      connected: this.connected, paused: this.paused, data_age_s, state, problem, bar,
    });
  }

  #dispatch(name, detail) {
    this.app.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
