/** What each rank of a job without progress does, in sentences, and the last error that it wrote. */

/** @returns {Promise<Map<number, string[]>>} empty where nothing is stuck, or nothing can be asked */
export async function loadStandings(app, signal) {
  if (app.roles) return new Map(); // a shared file
  try {
    return standingsOf(await app.json(app.api('stuck', { attempt: app.view.attempt }), signal));
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    return new Map();
  }
}

/** Pure part of `loadStandings`. */
export function standingsOf({ state, ranks = [], lines = [] }) {
  const found = new Map();
  const say = (rank, text) => found.set(rank, [...(found.get(rank) ?? []), text]);
  for (const { rank, in: op, frame } of state === 'stuck' ? ranks : []) {
    if (op) say(rank, `waits in ${op}`);
    if (frame && frame !== 'unknown') say(rank, `main thread in ${frame}`);
  }
  for (const { ranks: who, level, text } of lines) {
    if (level !== 'error' && level !== 'fatal') continue;
    for (const rank of who) say(rank, `wrote ${shortened(text.trimEnd().split('\n').at(-1))}`);
  }
  return found;
}

const shortened = (text) => (text.length > 120 ? `${text.slice(0, 119)}…` : text);
