/**
 * The one upload of this page, from the choice of files to the run. It outlives the panel that
 * shows it (Dash draws the list of runs anew) and says `change` whenever its state is another.
 *
 * @typedef {Object} State
 * @property {'idle'|'sending'|'broken'|'partly'|'elsewhere'|'queued'|'reading'|'waiting'|'done'|'failed'|'cancelled'} phase
 * @property {string} [title]
 * @property {number} [done] @property {number} [total] bytes
 * @property {?number} [rate] bytes a second
 * @property {number} [from] bytes that had come before this page began to send
 * @property {string} [file] reading: the one at hand
 * @property {?string} [shown] reading: the run in which what is read so far can be looked at
 * @property {string} [text] what went wrong
 * @property {number} [waitMs] broken: until the next try
 * @property {boolean} [canGoOn] failed: the same files may be sent on
 * @property {number} [keepHours] partly: how long the server keeps what has come
 * @property {boolean} [isOver] cancelled: the server knows @property {boolean} [removed] and has removed it
 * @property {Object} [result] done: what the server tells
 */
import { fingerprint, refusal, title, totalBytes } from './chosen_files.mjs';
import { Remembered } from './remembered_uploads.mjs';
import { Pace } from './upload_rate.mjs';
import { create, passes, pause, remove, sendAll, told, waitMs } from './upload_transfer.mjs';

const LOOK_EVERY_MS = 400;
/** What the server says of a whole upload; any other state is that it is read. */
const PHASES = { queued: 'queued', waiting: 'waiting' };
const LOOKS_BEFORE_PARTLY = 3;
const GONE = 'The server does not know this upload any more. Where it came in whole, the run is in the list; else send the files again.';

const sessions = new WeakMap();

/** The session of a page. @param {import('../lib/app.mjs').App} app */
export function sessionOf(app) {
  if (!sessions.has(app)) sessions.set(app, new Session(app));
  return sessions.get(app);
}

export class Session extends EventTarget {
  /** @type {State} */
  state = { phase: 'idle' };

  #app;
  #remembered;
  #id = null;
  /** The id of an upload the server has not yet told. @type {?Promise<string>} */
  #beginning = null;
  #chosen = null;
  #ending = null;
  #pace = new Pace();

  constructor(app) {
    super();
    this.#app = app;
    let storage = null;
    try { storage = window.localStorage; } catch { /* forbidden */ }
    this.#remembered = new Remembered(app.base, storage);
  }

  /** Whether something goes on that other files would have to wait for. */
  get isBusy() {
    return ['sending', 'broken', 'queued', 'reading', 'waiting'].includes(this.state.phase);
  }

  #say(state) {
    this.state = state;
    this.dispatchEvent(new Event('change'));
  }

  /** What was under way when the page was left: shown again, or read to its end. */
  async restore() {
    if (this.state.phase !== 'idle') return;
    for (const { id } of this.#remembered.all()) {
      const found = await told(this.#app, id).catch(() => undefined);
      if (this.state.phase !== 'idle') return;
      if (found === null) this.#remembered.forget(id);
      else if (found) { await this.#run(id, () => this.#follow()); return; }
    }
  }

  /** Send these files and see them imported. @param {import('./chosen_files.mjs').Chosen[]} chosen */
  async start(chosen, limitBytes) {
    if (this.isBusy) return;
    const wrong = refusal(chosen, limitBytes);
    if (wrong) { this.refuse(wrong); return; }
    this.#chosen = chosen;
    await this.goOn();
  }

  /** Nothing was sent, for this reason. @param {string} text */
  refuse(text) {
    this.#say({ phase: 'failed', text });
  }

  /** Send what is missing of the files chosen last. */
  async goOn() {
    const chosen = this.#chosen;
    this.#pace = new Pace();
    this.#say({ phase: 'sending', title: title(chosen), done: 0, total: totalBytes(chosen), rate: null });
    await this.#run(null, async () => {
      await this.#identify(chosen);
      await this.#send(chosen);
      await this.#follow();
    });
  }

  /** The upload of these files: the one begun before where the server still has it. */
  async #identify(chosen) {
    const mark = fingerprint(chosen);
    this.#id = this.#remembered.find(mark);
    if (this.#id && await told(this.#app, this.#id, this.#ending.signal)) return;
    if (this.#id) this.#remembered.forget(this.#id);
    this.#id = null;
    const { signal } = this.#ending;
    this.#beginning = create(this.#app, chosen);  // once asked for, the server has it
    const id = await this.#beginning;
    signal.throwIfAborted();
    this.#id = id;
    this.#remembered.add(id, mark);
  }

  async #send(chosen) {
    const common = { title: title(chosen), total: totalBytes(chosen) };
    let from = null;
    const sending = (done) => {
      this.#pace.note(done, performance.now());
      this.#say({ ...common, phase: 'sending', done, from, rate: this.#pace.rate() });
    };
    await sendAll(this.#app, this.#id, new Blob(chosen.map(({ file }) => file)), {
      signal: this.#ending.signal, hurry: this, onBytes: sending,
      onFrom: (offset) => { from ??= offset; this.#pace = new Pace(); sending(offset); },
      onBreak: (text, ms) => this.#say({ ...this.state, phase: 'broken', text, waitMs: ms, rate: null }),
    });
  }

  /** Tell how the server goes on, until it has ended. */
  async #follow() {
    this.#pace = new Pace();
    let failures = 0;
    for (let looks = 0; ; looks++) {
      let found;
      try {
        found = await told(this.#app, this.#id, this.#ending.signal);
        failures = 0;
      } catch (error) {
        this.#ending.signal.throwIfAborted();
        if (!passes(error.status)) throw error;
        failures += 1;
        this.#say({ ...this.state, phase: 'broken', text: error.message, waitMs: waitMs(failures), rate: null });
        await pause(waitMs(failures), this.#ending.signal, this);
        continue;
      }
      if (!this.#tell(found, looks)) return;
      await pause(LOOK_EVERY_MS, this.#ending.signal, this);
      this.#ending.signal.throwIfAborted();
    }
  }

  /** Show what the server tells; whether there is more to come. */
  #tell(found, looks) {
    if (found === null || found.state === 'done' || found.state === 'failed') {
      this.#remembered.forget(this.#id);
      if (found?.state === 'done') this.#say({ phase: 'done', title: found.title, result: found });
      else this.#say({ phase: 'failed', title: found?.title, text: found?.error ?? GONE });
      return false;
    }
    if (found.state === 'receiving') return this.#tellPart(found, looks);
    this.#pace.note(found.done_bytes, performance.now());
    this.#say({
      phase: PHASES[found.state] ?? 'reading', title: found.title, text: found.error, shown: found.shown,
      done: found.done_bytes, total: found.num_bytes, rate: this.#pace.rate(), file: found.file,
    });
    return true;
  }

  /** Part of it has come, and this page is not sending it: is anybody? */
  #tellPart(found, looks) {
    const part = {
      title: found.title, done: found.offset, total: found.total_bytes, keepHours: found.keep_hours,
    };
    if (found.is_sending) this.#say({ ...part, phase: 'elsewhere' });
    if (found.is_sending || looks < LOOKS_BEFORE_PARTLY) return true;
    this.#say({ ...part, phase: 'partly' });
    return false;
  }

  /** Do the work of one upload; whatever ends it becomes the state. */
  async #run(id, work) {
    this.#ending?.abort();
    this.#ending = new AbortController();
    const { signal } = this.#ending;
    this.#id = id;
    this.#beginning = null;
    try {
      await work();
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 404) this.#remembered.forget(this.#id);
      const mayPass = passes(error.status) || [404, 507].includes(error.status);
      this.#say({ ...this.state, phase: 'failed', text: error.message, canGoOn: mayPass && this.#chosen !== null });
    }
  }

  /** Try again at once where the connection broke. */
  hurry() {
    this.dispatchEvent(new Event('hurry'));
  }

  /** Give the upload up, here and on the server. */
  async cancel() {
    this.#ending?.abort();
    const given = { phase: 'cancelled', title: this.state.title };
    this.#say({ ...given, isOver: false });
    const begun = this.state;
    let removed = true;
    try {
      const id = this.#id ?? await this.#beginning;
      if (id !== null) {
        this.#remembered.forget(id);
        await remove(this.#app, id);
      }
    } catch {
      removed = false;
    }
    if (this.state === begun) this.#say({ ...given, isOver: true, removed });
  }

  /** Nothing is shown any more; what the server keeps it keeps. */
  close() {
    this.#ending?.abort();
    this.#say({ phase: 'idle' });
  }
}
