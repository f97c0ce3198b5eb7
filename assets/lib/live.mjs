/**
 * News of the run in view, by the socket of app/routes/live/status.py. Dispatches on `app`:
 * 'run' {run, version, state, last_step}: the run has new data; at most every RUN_MS;
 * 'live' {connected, paused, data_age_s, state, problem, bar}: with each message, and when that changes;
 * and publishes `pulse` {run, version, state} for Dash where words and numbers may have changed: when
 * a rank has finished a step or the state is another, at most every PULSE_MS.
 * A hidden tab has no socket; when it returns it catches up. While paused nothing but 'live' comes.
 */

export const RUN_MS = 250;
export const PULSE_MS = 1000;  // Dash draws words and numbers: nobody reads them faster
const SILENT_PULSE_MS = 5000;
const BACKOFF_MS = [200, 400, 800, 1600, 3000];
const SILENT_MS = 6000;  // the server says something each second
const RECENT_S = 5;
const UNKNOWN = 4404;  // the server's close code for a run that is not there (yet)

/** Milliseconds before the next try; `spread` from 0 to 1 keeps many tabs from coming at once. */
export function backoffMs(tries, spread = 0.5) {
  return BACKOFF_MS[Math.min(tries, BACKOFF_MS.length - 1)] * (0.75 + 0.5 * spread);
}

/** Address of the socket for a page's address. */
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
 * Whether a message is news to a page.
 * @param {{version: number, data_age_s: ?number}} message
 * @param {?number} known version told last, null: none since the page began
 * @param {boolean} again whether there was a socket for this run before: a server that was
 *   restarted counts from 1 again, and a tab that slept has missed something
 */
export function isNews(message, known, again) {
  if (known !== null) return message.version !== known;
  return again || (message.data_age_s !== null && message.data_age_s < RECENT_S);
}

/**
 * Whether numbers that depend on the time are asked for again without news: while ranks fall silent
 * one after another nothing is written that would tell of it, and the state says `silent` but once.
 */
export function isDueAgain(message, sinceMs) {
  return message.state === 'silent' && sinceMs >= SILENT_PULSE_MS;
}

/** Whether the run was replaced by itself: its import is over, and times may count from elsewhere. */
export function hasBecomeWhole(before, now) {
  return before === 'importing' && now !== 'importing';
}

/** What words and numbers of a page depend on: where no step has been finished, on any news. */
export function saidBy({ version, state, progress, problem, bar }) {
  return JSON.stringify([state, progress || version, problem, bar]);
}

export class Live {
  #socket = null;
  #run;  // of the socket
  #tries = 0;
  #known = null;
  #again = false;
  #wasUnknown = false;
  #waiting = null;  // message that came while paused
  #last = {};
  #timer = null;
  #pulsedAt = -Infinity;
  #pulsed = null;  // what the last pulse told of
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

  /** Hold the page as it is; data ages go on. */
  pause() {
    this.paused = true;
    this.runThrottle.cancel();
    this.pulseThrottle.cancel();
    this.#tell();
  }

  /** Follow again, from the newest state. */
  resume() {
    this.paused = false;
    const waiting = this.#waiting;
    this.#waiting = null;
    if (waiting) this.#pass(waiting);
    this.#tell();
  }

  /** Another run, or the first one: nothing is known of it. */
  #start() {
    this.#close();
    this.#run = this.app.view.run;
    this.#known = null;
    this.#again = false;
    this.#wasUnknown = false;
    this.#waiting = null;
    this.#last = {};
    this.#pulsed = null;
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
    clearTimeout(this.#timer);
    const socket = new WebSocket(socketUrl(location.href, this.app.base, this.#run));
    this.#socket = socket;
    this.#expectWord();
    socket.onmessage = (event) => { if (socket === this.#socket) this.#heard(event.data); };
    socket.onclose = (event) => { if (socket === this.#socket) this.#lost(event.code); };
  }

  #close() {
    clearTimeout(this.#timer);
    clearTimeout(this.#watchdog);
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
    this.#known = null;
    this.connected = false;
    this.#tell();
  }

  /** A network that went away says nothing: give the socket up where no word comes. */
  #expectWord() {
    clearTimeout(this.#watchdog);
    const socket = this.#socket;
    this.#watchdog = setTimeout(() => {
      if (socket !== this.#socket) return;
      this.#lost(0);
      socket.close();
    }, SILENT_MS);
  }

  #lost(code) {
    clearTimeout(this.#watchdog);
    this.#socket = null;
    this.#known = null;
    this.connected = false;
    if (code === UNKNOWN && this.#last.state === 'importing') {  // given up, or indexed as a whole now
      location.reload();
      return;
    }
    this.#wasUnknown ||= code === UNKNOWN;
    this.#tell();
    if (document.hidden) return;
    const wait = code === UNKNOWN ? Math.max(1000, backoffMs(this.#tries)) : backoffMs(this.#tries, Math.random());
    this.#tries += 1;
    this.#timer = setTimeout(() => this.#connect(), wait);
  }

  #heard(text) {
    this.#expectWord();
    const message = JSON.parse(text);
    // the page says that there is no such run, or shows what was read of it so far: now it is there
    if (this.#wasUnknown || hasBecomeWhole(this.#last.state, message.state)) {
      location.reload();
      return;
    }
    this.connected = true;
    this.#tries = 0;
    const news = isNews(message, this.#known, this.#again);
    this.#known = message.version;
    this.#again = true;
    const changed = message.state !== this.#last.state && this.#last.state !== undefined;
    this.#last = message;
    if (news || changed) {
      if (this.paused) this.#waiting = message;
      else this.#pass(message);
    } else if (!this.paused && isDueAgain(message, performance.now() - this.#pulsedAt)) {
      this.#pulse(message);
    }
    this.#tell();
  }

  #pass(message) {
    const { run, version, state, last_step } = message;
    if (run !== null) this.runThrottle.push({ run, version, state, last_step });
    if (saidBy(message) !== this.#pulsed) this.#pulse(message);
  }

  #pulse(message) {
    const { run, version, state } = message;
    this.#pulsedAt = performance.now();
    this.#pulsed = saidBy(message);
    this.pulseThrottle.push({ run, version, state });
  }

  #tell() {
    const { data_age_s = null, state = null, problem = null, bar = null } = this.#last;
    this.#dispatch('live', {
      connected: this.connected, paused: this.paused, data_age_s, state, problem, bar,
    });
  }

  #dispatch(name, detail) {
    this.app.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
