/** The help dialog, the toast, and copying to the clipboard. */
import { make } from '../dom.mjs';
import { help } from './keys.mjs';

const TOAST_MS = 2600;

/** Open the help dialog, or close it when it is open. @param {import('./keys.mjs').Page[]} pages */
export function toggleHelp(pages) {
  const existing = document.getElementById('help-dialog');
  if (existing) return existing.open ? existing.close() : existing.showModal();
  const dialog = make('dialog', { id: 'help-dialog', 'aria-label': 'keys' });
  const close = make('button', { on: { click: () => dialog.close() } }, 'Close');
  const columns = make('div', { class: 'columns' });
  for (const [title, rows] of help(pages)) {
    const list = rows.flatMap(([keys, action]) => [make('dt', {}, keys), make('dd', {}, action)]);
    columns.append(make('section', {}, make('h3', {}, title), make('dl', {}, list)));
  }
  dialog.append(make('header', {}, make('h2', {}, 'Keys'), close), columns);
  dialog.addEventListener('click', (event) => { if (event.target === dialog) dialog.close(); });
  document.body.append(dialog);
  dialog.showModal();
}

let timer;

/** Show a message for a moment; screen readers read it (aria-live). */
export function toast(text, root = document) {
  const box = root.getElementById('toast');
  if (!box) return;
  box.textContent = text;
  box.classList.add('shown');
  clearTimeout(timer);
  timer = setTimeout(() => box.classList.remove('shown'), TOAST_MS);
}

/** Copy text, also where the page may not use the clipboard (plain HTTP). @returns whether it worked */
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
