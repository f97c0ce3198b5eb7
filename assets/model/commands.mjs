/** Commands to the ranks of a running job, and what each of them answers. */
import { formatRanks } from '../lib/view_state.mjs';
import { make } from '../ranks/theme.mjs';
import { ackLines } from './watch_form.mjs';

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
