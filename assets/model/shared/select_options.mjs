/** The options of a select. */
import { make } from '../../lib/dom.mjs';

/** Set options and value of a select; options are replaced only if they have changed. */
export function fillOptions(select, entries, value) {
  const key = JSON.stringify(entries);
  if (select.dataset.entries !== key) select.replaceChildren(...entries.map(([name, text]) => make('option', { value: name }, text)));
  select.dataset.entries = key;
  select.value = String(value ?? '');
}
