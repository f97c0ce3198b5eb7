/** Loads tiles from the server, or from the data of a shared file. */
import { unpackArrays } from '../../lib/arrays.mjs';
import { formatRanks } from '../../lib/view_state.mjs';
import { Tile } from './tile.mjs';

/**
 * @typedef {Object} TileParams
 * @property {?number} attempt @property {?number} rank @property {number[]} ranks
 * @property {?[number, number]} steps @property {?import('../../lib/canvas/time_scale.mjs').Span} window
 * @property {number} width px
 */

/** The lanes have recorded nothing yet; the message is the server's. */
export class NothingYet extends Error {}

/** @returns {(params: TileParams, signal: AbortSignal) => Promise<Tile>} throws NothingYet */
export function serverLoader(app) {
  return async (params, signal) => {
    const answer = await app.arrays(app.api('timeline', {
      attempt: params.attempt, rank: params.rank, ranks: formatRanks(params.ranks),
      steps: params.steps ? params.steps.join('..') : null,
      from: params.window ? Math.round(params.window.begin) : null,
      to: params.window ? Math.round(params.window.end) : null,
      width: Math.round(params.width),
    }), signal);
    if (answer.meta.nothing) throw new NothingYet(answer.meta.nothing);
    return new Tile(answer);
  };
}

/** Always returns the tile of a base64 text that holds a binary answer of the route. */
export function textLoader(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const tile = new Tile(unpackArrays(bytes.buffer));
  return async () => tile;
}
