/** The help dialog and the toast. Text only ever goes in as text. */
import { help } from './keys.mjs';

const TOAST_MS = 2600;

function element(name, text = '', className = '') {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

/** Open the help dialog, or close it when it is open. @param {import('./keys.mjs').Page[]} pages */
export function toggleHelp(pages) {
  const found = document.getElementById('help-dialog');
  if (found) return found.open ? found.close() : found.showModal();
  const dialog = element('dialog');
  dialog.id = 'help-dialog';
  dialog.setAttribute('aria-label', 'keys');
  const close = element('button', 'Close');
  close.addEventListener('click', () => dialog.close());
  const head = element('header');
  head.append(element('h2', 'Keys'), close);
  const columns = element('div', '', 'columns');
  for (const [title, rows] of help(pages)) {
    const part = element('section');
    const list = element('dl');
    for (const [keys, does] of rows) list.append(element('dt', keys), element('dd', does));
    part.append(element('h3', title), list);
    columns.append(part);
  }
  dialog.append(head, columns);
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
    const area = element('textarea');
    area.value = text;
    area.className = 'visually-hidden';
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}
