/**
 * Receives frames of a running job through the socket /live/frames and keeps the newest of each key.
 * The server sends more frames when `drawn` has reported that the earlier ones are on the screen.
 * Calls `onMessage()` after each frame and each status of the watches.
 */
import { backoffMs } from '../../lib/live.mjs';
import { decodeFrame, frameKey } from './frame.mjs';

const FORBIDDEN = 4403;
const UNKNOWN = 4404;
const MOST_KEPT = 4096;

export class FrameSocket {
  #tries = 0;
  #socket = null;
  #timer = null;
  #isClosed = false;
  #follow;

  /** @param {import('../../lib/app.mjs').App} app @param {() => void} onMessage @param {?string[]} kinds null: all but those of prompts */
  constructor(app, onMessage, kinds = null) {
    Object.assign(this, { app, onMessage, kinds, run: app.view.run, state: null, problem: null, numReceived: 0 });
    /** @type {Map<string, import('./frame.mjs').Frame>} by kind, key and sequence */
    this.frames = new Map();
    this.#follow = () => this.#followVisibility();
    document.addEventListener('visibilitychange', this.#follow);
    this.#connect();
  }

  close() {
    this.#isClosed = true;
    document.removeEventListener('visibilitychange', this.#follow);
    clearTimeout(this.#timer);
    this.#socket?.close();
  }

  /** Report that this many frames of this connection are drawn, or replaced by newer ones. */
  drawn(number) {
    if (number > 0 && this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(`drawn ${number}`);
  }

  /** Newest frames of a kind (and sequence), by layer and head. */
  of(what, sample = null) {
    return [...this.frames.values()].filter((frame) => frame.what === what && (sample === null || frame.sample === sample))
      .sort((a, b) => a.layer - b.layer || a.head - b.head || (a.shard < b.shard ? -1 : 1));
  }

  /** Kinds of the received frames. */
  whats() {
    return [...new Set([...this.frames.values()].map(({ what }) => what))];
  }

  /** A hidden page gets no frames; when it is shown again it gets the newest. */
  #followVisibility() {
    clearTimeout(this.#timer);
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
    this.#tries = 0;
    if (!document.hidden && !this.problem) this.#connect();
  }

  #connect() {
    const url = new URL(`${this.app.base}/live/frames`, location.href);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    url.searchParams.set('run', this.run);
    url.searchParams.set('reports', '1');
    this.kinds?.forEach((kind) => url.searchParams.append('what', kind));
    this.numReceived = 0;
    const socket = this.#socket = new WebSocket(url.href);
    socket.binaryType = 'arraybuffer';
    socket.onmessage = ({ data }) => this.#message(data);
    socket.onclose = ({ code, reason }) => { if (socket === this.#socket) this.#disconnected(code, reason); };
  }

  #message(data) {
    this.#tries = 0;
    if (typeof data === 'string') this.state = JSON.parse(data);
    else {
      this.numReceived++;
      this.#keep(decodeFrame(data));
    }
    this.onMessage();
  }

  #keep(frame) {
    if (!this.kinds && frame.what.startsWith('prompt_')) return;
    const key = `${frame.what} ${frameKey(frame)} ${frame.sample}`;
    const old = this.frames.get(key);
    if (old && old.rank < frame.rank && old.step >= frame.step) return;  // from a replica of the same head
    this.frames.delete(key);
    this.frames.set(key, frame);
    if (this.frames.size > MOST_KEPT) this.frames.delete(this.frames.keys().next().value);
  }

  #disconnected(code, reason) {
    if (this.#isClosed) return;
    if (code === FORBIDDEN || code === UNKNOWN) {
      this.problem = reason;
      this.onMessage();
      return;
    }
    this.#timer = setTimeout(() => this.#connect(), backoffMs(this.#tries++, Math.random()));
  }
}
