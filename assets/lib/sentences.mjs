/** Sentences that stand where a panel would: while it loads, where nothing was recorded, after an error. */
import { make } from './dom.mjs';

/** @param {?string} role status or alert, for screen readers; null none @param {...any} content */
export const sentence = (role, ...content) => make('p', { class: 'panel sentence', ...(role ? { role } : {}) }, ...content);

/** The message of an error as a sentence of its own: those of the server begin in lower case, as terminals show them. */
export const asSentence = (message) => `${message.slice(0, 1).toUpperCase()}${message.slice(1)}`.replace(/[^.]$/, '$&.');

/** @param {string} what part of the page @param {Error} error */
export const cannotBeShown = (what, error) => sentence('alert', make('strong', {}, `${what} cannot be shown. `), asSentence(error.message));

/** The state of a run in a word; one that is over may also have failed. @param {string} state */
export function stateText(state) {
  return state === 'finished' ? 'ended' : state;
}
