/** Commands to the ranks of a running job, and what each of them answers. */
import { make } from './dom.mjs';
import { formatRanks } from './view_state.mjs';

/**
 * @param {?number[]} ranks null: all whom it concerns
 * @returns {Promise<{acks?: Object[], silent?: number[], args?: Object, error?: string}>} error: why no rank was asked
 */
export async function postCommand(app, name, args, ranks = null) {
  try {
    const answer = await fetch(`${app.base}/api/command?run=${encodeURIComponent(app.view.run)}`, {
      method: 'POST', credentials: 'same-origin', headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ name, args, ...(ranks ? { ranks } : {}) }),
    });
    const told = await answer.json();
    return answer.ok ? told : { error: told.error ?? `The server answered ${answer.status}.` };
  } catch {
    return { error: 'The server cannot be reached.' };
  }
}

/** "ranks 0-3: taken" for each answer that some gave alike. Pure. */
export function answerTexts(told) {
  if (told.error) return [{ ok: false, text: told.error }];
  return ackLines(told, 'did not answer in time').map(({ ok, ranks, text }) => (
    { ok, text: `${ranks.length === 1 ? 'rank' : 'ranks'} ${formatRanks(ranks)}: ${text || (ok ? 'done' : 'refused')}` }));
}

/** @param {HTMLElement} list @param {string[]} more sentences about all of it */
export function tellAcks(list, told, more = []) {
  list.replaceChildren(
    ...more.map((text) => make('li', { class: 'fault' }, text)),
    ...answerTexts(told).map(({ ok, text }) => make('li', { class: ok ? null : 'fault' }, text)));
}

const NO_ANSWER = 'did not answer in time; it gets the watch with its next step';

/** Answers of ranks: those that agree in one line. @returns {{ranks: number[], ok: boolean, text: string}[]} */
export function ackLines({ acks = [], silent = [] }, noAnswer = NO_ANSWER) {
  const lines = new Map();
  for (const { rank, ok, text } of acks) {
    const key = `${ok} ${text}`;
    if (!lines.has(key)) lines.set(key, { ranks: [], ok, text });
    lines.get(key).ranks.push(rank);
  }
  if (silent.length) lines.set('silent', { ranks: silent, ok: false, text: noAnswer });
  return [...lines.values()].sort((a, b) => a.ok - b.ok);
}

/** `attention`, or `attention-2` where that is taken. */
export function freeId(what, taken) {
  let id = what;
  for (let number = 2; taken.includes(id); number++) id = `${what}-${number}`;
  return id;
}
