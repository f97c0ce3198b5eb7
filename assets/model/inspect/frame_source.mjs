/** Where Inspect has frames from: stored ones from the server, those of a running job from the socket. */
import { decodeFrame, isShare, partsOf, placeOf } from '../shared/frame.mjs';
import { codesOfTile, thumbnail } from '../shared/frame_codes.mjs';

const TILE = { head: [48, 48], strip: [24, 240] };

/**
 * @typedef {Object} Chosen what is looked at
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
    return chosen.isLive ? this.#liveTiles(chosen) : this.#storedTiles(chosen, signal);
  }

  #liveTiles({ what, sample }) {
    const frames = this.socket.of(what, sample);
    const [height, width] = (frames[0]?.head ?? 0) >= 0 ? TILE.head : TILE.strip;
    return {
      what, height, width, frames, step: frames.reduce((newest, { step }) => Math.max(newest, step), 0),
      codes: frames.map((frame) => (frame.codes ??= thumbnail(frame, height, width, !isShare(what)))),  // once, while others come
    };
  }

  async #storedTiles({ what, step, sample, kind }, signal) {
    const [height, width] = kind.heads.some((head) => head >= 0) ? TILE.head : TILE.strip;
    const { arrays, meta } = await this.app.arrays(this.app.api('model/tiles', {
      what, step, sample, height, width, attempt: this.app.view.attempt,
    }), signal);
    const size = meta.height * meta.width;
    return { ...meta, codes: meta.frames.map((_, at) => codesOfTile(arrays.code.subarray(at * size, (at + 1) * size), !isShare(what))) };
  }

  /** The frame at a place; null: no live one. @param {string} key of placeOf @param {Chosen} chosen, and run and attempt where it is another */
  async frame(key, { what, step, sample, isLive, run, attempt }, signal) {
    if (isLive) return this.socket.of(what, sample).find((frame) => placeOf(frame) === key) ?? null;
    const wanted = { what, step, sample, ...partsOf(key) };
    return this.stored(attempt === undefined ? wanted : { ...wanted, attempt }, signal, run);
  }

  /** The frame of another kind in the same step and sequence; null: there is none. */
  async beside(what, { step, sample, isLive }, signal) {
    if (isLive) return this.socket.of(what, sample)[0] ?? null;
    if (!this.kinds.find((kind) => kind.what === what)?.steps.includes(step)) return null;
    return this.stored({ what, step, sample, layer: -1 }, signal).catch((error) => {
      if (error.name === 'AbortError') throw error;
      return null;  // not of this sequence
    });
  }

  /** All frames of another kind in the same step and sequence: one of each rank that has a part of it. */
  async parts(what, { step, sample, isLive }, signal) {
    if (isLive) return this.socket.of(what, sample);
    if (!this.kinds.find((kind) => kind.what === what)?.steps.includes(step)) return [];
    const { attempt } = this.app.view;
    const { meta } = await this.app.arrays(this.app.api('model/tiles', { what, step, sample, height: 1, width: 1, attempt }), signal);
    return Promise.all(meta.frames.map(({ layer, name, shard }) => this.stored({ what, step, sample, layer, name, shard }, signal)));
  }

  /** One stored frame, of this run and attempt or another. Throws an Error with the server's sentence. */
  async stored(wanted, signal, run = this.app.view.run) {
    const answer = await fetch(this.app.api('model/frame', { attempt: this.app.view.attempt, ...wanted }, run), { signal, credentials: 'same-origin' });
    if (!answer.ok) throw new Error((await answer.json()).error ?? `The server answered ${answer.status}.`);
    return decodeFrame(await answer.arrayBuffer());
  }
}
