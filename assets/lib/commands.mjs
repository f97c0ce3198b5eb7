/** Commands to the ranks of a running job, and the answers of the ranks. */
import { make } from './dom.mjs';
import { formatRanks } from './view_state.mjs';

/**
 * @param {?number[]} ranks null: all ranks that the command concerns
 * @returns {Promise<{acks?: Object[], silent?: number[], args?: Object, error?: string}>} error: why the command was not sent
 */
export async function postCommand(app, name, args, ranks = null) {
  try {
    const answer = await fetch(`${app.base}/api/command?run=${encodeURIComponent(app.view.run)}`, {
      method: 'POST', credentials: 'same-origin', headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ name, args, ...(ranks ? { ranks } : {}) }),
    });
    const reply = await answer.json();
    return answer.ok ? reply : { error: reply.error ?? `The server answered ${answer.status}.` };
  } catch {
    return { error: 'The server cannot be reached.' };
  }
}

/** "ranks 0-3: taken" for each group of ranks with the same answer. Pure. */
export function answerTexts(reply) {
  if (reply.error) return [{ ok: false, text: reply.error }];
  return ackLines(reply, 'did not answer in time').map(({ ok, ranks, text }) => (
    { ok, text: `${ranks.length === 1 ? 'rank' : 'ranks'} ${formatRanks(ranks)}: ${text || (ok ? 'done' : 'refused')}` }));
}

/** @param {HTMLElement} list @param {string[]} more sentences about the whole command */
export function showAnswers(list, reply, more = []) {
  list.replaceChildren(
    ...more.map((text) => make('li', { class: 'fault' }, text)),
    ...answerTexts(reply).map(({ ok, text }) => make('li', { class: ok ? null : 'fault' }, text)));
}

const NO_ANSWER = 'did not answer in time; it gets the watch with its next step';

/** Answers of ranks, one line per answer. @returns {{ranks: number[], ok: boolean, text: string}[]} */
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

/** `attention`, or `attention-2` if that id is taken. */
export function unusedId(name, taken) {
  let id = name;
  for (let number = 2; taken.includes(id); number++) id = `${name}-${number}`;
  return id;
}
