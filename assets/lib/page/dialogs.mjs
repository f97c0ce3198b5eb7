/** The help dialog and the toast. Text only ever goes in as text. */
import { make } from '../dom.mjs';
import { HELP } from './keys.mjs';

const TOAST_MS = 2600;

/** Open the help dialog, or close it when it is open. */
export function toggleHelp() {
  const found = document.getElementById('help-dialog');
  if (found) return found.open ? found.close() : found.showModal();
  const dialog = make('dialog', { id: 'help-dialog', 'aria-label': 'keys' });
  const close = make('button', { on: { click: () => dialog.close() } }, 'Close');
  const columns = make('div', { class: 'columns' });
  for (const [title, rows] of HELP) {
    const list = rows.flatMap(([keys, action]) => [make('dt', {}, keys), make('dd', {}, action)]);
    columns.append(make('section', {}, make('h3', {}, title), make('dl', {}, list)));
  }
  dialog.append(make('header', {}, make('h2', {}, 'Keys'), close), columns);
  dialog.addEventListener('click', (event) => { if (event.target === dialog) dialog.close(); });
  document.body.append(dialog);
  dialog.showModal();
}

let timer;

/** Say something for a moment; screen readers read it (aria-live). */
export function toast(text, root = document) {
  const place = root.getElementById('toast');
  if (!place) return;
  place.textContent = text;
  place.classList.add('shown');
  clearTimeout(timer);
  timer = setTimeout(() => place.classList.remove('shown'), TOAST_MS);
}

/** Copy text; where the clipboard is closed (plain http from afar) offer it to be copied by hand. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = make('textarea', { class: 'visually-hidden' });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}
