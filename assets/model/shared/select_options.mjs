/** The options of a select. */
import { make } from '../../lib/dom.mjs';

/** Options of a select, made anew only where they are others. */
export function fillOptions(select, entries, value) {
  const key = JSON.stringify(entries);
  if (select.dataset.entries !== key) select.replaceChildren(...entries.map(([name, text]) => make('option', { value: name }, text)));
  select.dataset.entries = key;
  select.value = String(value ?? '');
}
