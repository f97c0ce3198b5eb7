/**
 * The upload of this page, from the choice of files to the run. It outlives the panel that shows it,
 * because Dash may draw the list of runs again, and dispatches `change` with each new state.
 *
 * @typedef {Object} State
 * @property {'idle'|'sending'|'broken'|'partly'|'elsewhere'|'queued'|'reading'|'waiting'|'done'|'failed'|'cancelled'} phase
 * @property {string} [title]
 * @property {number} [done] @property {number} [total] bytes
 * @property {?number} [rate] bytes per second
 * @property {number} [from] bytes that the server had before this page began to send
 * @property {string} [file] reading: the current file
 * @property {?string} [shown] reading: the run that shows what is read so far
 * @property {string} [text] what went wrong
 * @property {number} [waitMs] broken: time until the next try
 * @property {boolean} [canResume] failed: the upload of the same files can be resumed
 * @property {number} [keepHours] partly: how long the server keeps the received part
 * @property {boolean} [isOver] cancelled: the request to remove it has ended @property {boolean} [removed] successfully
 * @property {Object} [result] done: the server's answer
 */
import { fingerprint, refusal, title, totalBytes } from './chosen_files.mjs';
import { RememberedUploads } from './remembered_uploads.mjs';
import { UploadRate } from './upload_rate.mjs';
import { create, isTemporary, pause, remove, sendAll, uploadStatus, waitMs } from './upload_transfer.mjs';

const POLL_MS = 400;
/** Phases by the server's state of a complete upload; in any other state it is being read. */
const PHASES = { queued: 'queued', waiting: 'waiting' };
const POLLS_BEFORE_PARTLY = 3;
const GONE = 'The server no longer knows this upload. If it was complete, the run is in the list; otherwise send the files again.';

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
  /** The id of an upload that the server has not answered with yet. @type {?Promise<string>} */
  #creation = null;
  #chosen = null;
  #abort = null;
  #rate = new UploadRate();

  constructor(app) {
    super();
    this.#app = app;
    let storage = null;
    try { storage = window.localStorage; } catch { /* forbidden */ }
    this.#remembered = new RememberedUploads(app.base, storage);
  }

  /** Whether an upload is under way that other files would have to wait for. */
  get isBusy() {
    return ['sending', 'broken', 'queued', 'reading', 'waiting'].includes(this.state.phase);
  }

  #setState(state) {
    this.state = state;
    this.dispatchEvent(new Event('change'));
  }

  /** Resume showing an upload that was under way when the page was left. */
  async restore() {
    if (this.state.phase !== 'idle') return;
    for (const { id } of this.#remembered.all()) {
      const status = await uploadStatus(this.#app, id).catch(() => undefined);
      if (this.state.phase !== 'idle') return;
      if (status === null) this.#remembered.forget(id);
      else if (status) { await this.#run(id, () => this.#follow()); return; }
    }
  }

  /** Send these files and follow their import. @param {import('./chosen_files.mjs').Chosen[]} chosen */
  async start(chosen, limitBytes) {
    if (this.isBusy) return;
    const problem = refusal(chosen, limitBytes);
    if (problem) { this.refuse(problem); return; }
    this.#chosen = chosen;
    await this.resume();
  }

  /** Show why nothing was sent. @param {string} text */
  refuse(text) {
    this.#setState({ phase: 'failed', text });
  }

  /** Send the missing part of the files chosen last. */
  async resume() {
    const chosen = this.#chosen;
    this.#rate = new UploadRate();
    this.#setState({ phase: 'sending', title: title(chosen), done: 0, total: totalBytes(chosen), rate: null });
    await this.#run(null, async () => {
      await this.#identify(chosen);
      await this.#send(chosen);
      await this.#follow();
    });
  }

  /** Find the upload of these files, if it was begun before and the server still has it, or create it. */
  async #identify(chosen) {
    const print = fingerprint(chosen);
    this.#id = this.#remembered.find(print);
    if (this.#id && await uploadStatus(this.#app, this.#id, this.#abort.signal)) return;
    if (this.#id) this.#remembered.forget(this.#id);
    this.#id = null;
    const { signal } = this.#abort;
    this.#creation = create(this.#app, chosen);  // once requested, the server has it
    const id = await this.#creation;
    signal.throwIfAborted();
    this.#id = id;
    this.#remembered.add(id, print);
  }

  async #send(chosen) {
    const common = { title: title(chosen), total: totalBytes(chosen) };
    let from = null;
    const sending = (done) => {
      this.#rate.add(done, performance.now());
      this.#setState({ ...common, phase: 'sending', done, from, rate: this.#rate.rate() });
    };
    await sendAll(this.#app, this.#id, new Blob(chosen.map(({ file }) => file)), {
      signal: this.#abort.signal, hurry: this, onBytes: sending,
      onFrom: (offset) => { from ??= offset; this.#rate = new UploadRate(); sending(offset); },
      onBreak: (text, ms) => this.#setState({ ...this.state, phase: 'broken', text, waitMs: ms, rate: null }),
    });
  }

  /** Show the progress on the server until the import has ended. */
  async #follow() {
    this.#rate = new UploadRate();
    let failures = 0;
    for (let polls = 0; ; polls++) {
      let status;
      try {
        status = await uploadStatus(this.#app, this.#id, this.#abort.signal);
        failures = 0;
      } catch (error) {
        this.#abort.signal.throwIfAborted();
        if (!isTemporary(error.status)) throw error;
        failures += 1;
        this.#setState({ ...this.state, phase: 'broken', text: error.message, waitMs: waitMs(failures), rate: null });
        await pause(waitMs(failures), this.#abort.signal, this);
        continue;
      }
      if (!this.#showStatus(status, polls)) return;
      await pause(POLL_MS, this.#abort.signal, this);
      this.#abort.signal.throwIfAborted();
    }
  }

  /** Show the server's status. @returns {boolean} whether to ask again */
  #showStatus(status, polls) {
    if (status === null || status.state === 'done' || status.state === 'failed') {
      this.#remembered.forget(this.#id);
      if (status?.state === 'done') this.#setState({ phase: 'done', title: status.title, result: status });
      else this.#setState({ phase: 'failed', title: status?.title, text: status?.error ?? GONE });
      return false;
    }
    if (status.state === 'receiving') return this.#showPart(status, polls);
    this.#rate.add(status.done_bytes, performance.now());
    this.#setState({
      phase: PHASES[status.state] ?? 'reading', title: status.title, text: status.error, shown: status.shown,
      done: status.done_bytes, total: status.num_bytes, rate: this.#rate.rate(), file: status.file,
    });
    return true;
  }

  /** Show a partly received upload that this page is not sending; another page may be. */
  #showPart(status, polls) {
    const part = {
      title: status.title, done: status.offset, total: status.total_bytes, keepHours: status.keep_hours,
    };
    if (status.is_sending) this.#setState({ ...part, phase: 'elsewhere' });
    if (status.is_sending || polls < POLLS_BEFORE_PARTLY) return true;
    this.#setState({ ...part, phase: 'partly' });
    return false;
  }

  /** Do the work of one upload; an error becomes the state. */
  async #run(id, work) {
    this.#abort?.abort();
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    this.#id = id;
    this.#creation = null;
    try {
      await work();
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 404) this.#remembered.forget(this.#id);
      const isRetryable = isTemporary(error.status) || [404, 507].includes(error.status);
      this.#setState({ ...this.state, phase: 'failed', text: error.message, canResume: isRetryable && this.#chosen !== null });
    }
  }

  /** Try again at once after the connection broke. */
  hurry() {
    this.dispatchEvent(new Event('hurry'));
  }

  /** Cancel the upload, here and on the server. */
  async cancel() {
    this.#abort?.abort();
    const cancelled = { phase: 'cancelled', title: this.state.title };
    this.#setState({ ...cancelled, isOver: false });
    const stateBefore = this.state;
    let removed = true;
    try {
      const id = this.#id ?? await this.#creation;
      if (id !== null) {
        this.#remembered.forget(id);
        await remove(this.#app, id);
      }
    } catch {
      removed = false;
    }
    if (this.state === stateBefore) this.#setState({ ...cancelled, isOver: true, removed });
  }

  /** Show nothing any more; the server keeps what it has. */
  close() {
    this.#abort?.abort();
    this.#setState({ phase: 'idle' });
  }
}
