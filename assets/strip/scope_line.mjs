/** The line below the strip: the steps that the page shows, and a switch for planted faults. */
import { make } from '../lib/dom.mjs';
import { scopeText } from './messages.mjs';

/** @returns {{element: HTMLElement, update: (marks: {kind: string}[]) => void}} */
export function makeScopeLine(app) {
  const text = make('span', { class: 'chip scope-chip' });
  const clear = make('button', { type: 'button', title: 'Show the steps that the page chooses' }, 'Clear');
  clear.addEventListener('click', () => app.set({ steps: null, t: null }, { push: true }));
  const truth = make('button', { type: 'button', class: 'truth' });
  truth.addEventListener('click', () => app.set({ truth: !app.view.truth }));
  const element = make('div', { class: 'scope-line' }, [text, clear, truth]);
  const update = (marks) => {
    const shown = scopeText(app.scope);
    text.textContent = shown && `Shown: ${shown}`;
    text.hidden = shown === '';
    clear.hidden = app.view.steps === null || shown === '';
    const planted = marks.filter(({ kind }) => kind === 'fault').length;
    truth.hidden = planted === 0;
    truth.textContent = app.view.truth ? 'Hide planted faults' : 'Show planted faults';
    truth.setAttribute('aria-pressed', String(app.view.truth));
    element.hidden = text.hidden && truth.hidden;
  };
  update([]);
  return { element, update };
}
