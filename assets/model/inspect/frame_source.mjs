/** The frames of Inspect: recorded ones from the server, those of a running job from the socket. */
import { decodeFrame, isShare, partsOfKey, frameKey } from '../shared/frame.mjs';
import { codesOfTile, thumbnail } from '../shared/frame_codes.mjs';

const TILE = { head: [48, 48], strip: [24, 240] };

/**
 * @typedef {Object} Chosen what is on screen
 * @property {string} what @property {?number} step null: live @property {?number} sample
 * @property {boolean} isLive @property {{heads: number[]}} kind
 */
export class FrameSource {
  /** @param {import('../../lib/app.mjs').App} app */
  constructor(app) {
    Object.assign(this, { app, kinds: [], socket: null });
  }

  /** Thumbnails of all frames. @param {Chosen} chosen */
  async tiles(chosen, signal) {
    return chosen.isLive ? this.#liveTiles(chosen) : this.#recordedTiles(chosen, signal);
  }

  #liveTiles({ what, sample }) {
    const frames = this.socket.of(what, sample);
    const [height, width] = (frames[0]?.head ?? 0) >= 0 ? TILE.head : TILE.strip;
    return {
      what, height, width, frames, step: frames.reduce((newest, { step }) => Math.max(newest, step), 0),
      codes: frames.map((frame) => (frame.codes ??= thumbnail(frame, height, width, !isShare(what)))),  // once per frame, while others arrive
    };
  }

  async #recordedTiles({ what, step, sample, kind }, signal) {
    const [height, width] = kind.heads.some((head) => head >= 0) ? TILE.head : TILE.strip;
    const { arrays, meta } = await this.app.arrays(this.app.api('model/tiles', {
      what, step, sample, height, width, attempt: this.app.view.attempt,
    }), signal);
    const size = meta.height * meta.width;
    return { ...meta, codes: meta.frames.map((_, i) => codesOfTile(arrays.code.subarray(i * size, (i + 1) * size), !isShare(what))) };
  }

  /** The frame with a key; null if no live one has it. @param {string} key of frameKey @param {Chosen} chosen, with run and attempt if they are not the current ones */
  async frame(key, { what, step, sample, isLive, run, attempt }, signal) {
    if (isLive) return this.socket.of(what, sample).find((frame) => frameKey(frame) === key) ?? null;
    const params = { what, step, sample, ...partsOfKey(key) };
    return this.recorded(attempt === undefined ? params : { ...params, attempt }, signal, run);
  }

  /** The frame of another kind in the same step and sequence; null if there is none. */
  async sameStep(what, { step, sample, isLive }, signal) {
    if (isLive) return this.socket.of(what, sample)[0] ?? null;
    if (!this.kinds.find((kind) => kind.what === what)?.steps.includes(step)) return null;
    return this.recorded({ what, step, sample, layer: -1 }, signal).catch((error) => {
      if (error.name === 'AbortError') throw error;
      return null;  // this sequence has none
    });
  }

  /** All frames of another kind in the same step and sequence: one from each rank that holds a part. */
  async parts(what, { step, sample, isLive }, signal) {
    if (isLive) return this.socket.of(what, sample);
    if (!this.kinds.find((kind) => kind.what === what)?.steps.includes(step)) return [];
    const { attempt } = this.app.view;
    const { meta } = await this.app.arrays(this.app.api('model/tiles', { what, step, sample, height: 1, width: 1, attempt }), signal);
    return Promise.all(meta.frames.map(({ layer, name, shard }) => this.recorded({ what, step, sample, layer, name, shard }, signal)));
  }

  /** One recorded frame, of this run and attempt or another. Throws an Error with the server's message. */
  async recorded(params, signal, run = this.app.view.run) {
    const answer = await fetch(this.app.api('model/frame', { attempt: this.app.view.attempt, ...params }, run), { signal, credentials: 'same-origin' });
    if (!answer.ok) throw new Error((await answer.json()).error ?? `The server answered ${answer.status}.`);
    return decodeFrame(await answer.arrayBuffer());
  }
}
