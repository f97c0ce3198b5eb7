/** Single operations that a profiler recorded, against what the device can do, and kernels slower than on other ranks. */
import { make } from '../lib/dom.mjs';
import { makeFetcher } from '../lib/fetcher.mjs';
import { cannotBeShown, sentence } from '../lib/sentences.mjs';
import { chart } from './chart.mjs';
import { operationTable, slowTable } from './tables.mjs';
import { aboutText } from './text.mjs';

const NEWS_MS = 5000;

/** What the answer depends on. */
const wanted = ({ attempt, steps, peak, bandwidth }) => ({ attempt, steps: steps?.join('..') ?? null, peak, bandwidth });

export function mount(element, app) {
  let asked = wanted(app.view);
  const stop = new AbortController();
  element.replaceChildren(sentence('status', 'Looking for operations that a profiler recorded.'));

  /** Mark an operation in the chart and in the table. */
  function mark(index) {
    for (const one of element.querySelectorAll('[data-operation]')) one.classList.toggle('is-marked', index !== null && one.dataset.operation === String(index));
  }

  function show(found) {
    const active = element.contains(document.activeElement) ? document.activeElement : null;
    if (active?.getAttribute('name')) return;  // someone is typing
    const value = active?.value;
    element.replaceChildren(found.operations ? panel(found, app, mark) : sentence('status', make('strong', {}, 'Single operations: '), found.reason));
    if (value) [...element.querySelectorAll('button')].find((button) => button.value === value)?.focus();
  }

  const fetcher = makeFetcher(async (signal) => {
    try {
      const found = await app.json(app.api('mfu/operations', asked), signal);
      if (!signal.aborted) show(found);
    } catch (error) {
      if (error.name !== 'AbortError') element.replaceChildren(cannotBeShown('Single operations', error));
    }
  }, NEWS_MS);

  function follow() {
    const next = wanted(app.view);
    if (JSON.stringify(next) === JSON.stringify(asked)) return;
    asked = next;
    if (element.contains(document.activeElement)) document.activeElement.blur();
    fetcher.soon();
  }

  app.addEventListener('run', fetcher.news, { signal: stop.signal });
  app.addEventListener('view', follow, { signal: stop.signal });
  fetcher.now();
  return {
    destroy() {
      stop.abort();
      fetcher.stop();
    },
  };
}

function panel(found, app, mark) {
  const title = make('header', {}, make('h2', {}, 'Single operations against the roofline'), make('span', { class: 'quiet' }, aboutText(found)),
    app.pages ? bandwidthField(app, found.roofs?.gb_per_s ?? null) : []);
  const says = (text, name = 'roofline-says') => (text ? [make('p', { class: name }, text)] : []);
  const slow = slowTable(found.comparison, app);
  return make('section', { class: 'panel', 'aria-label': 'Single operations against the roofline' }, title, ...says(found.saving),
    chart(found, mark) ?? [], operationTable(found, mark),
    ...(found.num_left_out ? says(`${found.num_left_out.toLocaleString('en')} shorter ones are left out.`, 'quiet') : []),
    make('h3', {}, 'Kernels on other ranks'), ...says(found.peers, slow ? 'roofline-says roofline-found' : 'roofline-says'), slow ?? [],
    ...found.notes.map((text) => make('p', { class: 'roofline-note quiet' }, text)));
}

/** A field for the bandwidth; an empty one takes that of the devices' data sheet. */
function bandwidthField(app, known) {
  const field = make('input', {
    name: 'bandwidth', inputmode: 'decimal', size: 7, value: app.view.bandwidth ?? '', placeholder: known === null ? 'unknown' : String(known),
    pattern: '[0-9]{1,6}([.][0-9]{1,4})?', 'aria-label': 'bandwidth of the memory of one device in GB/s',
    title: 'bandwidth of the memory of one device in GB/s, such as 3350; empty: by the data sheet of the devices',
  });
  const apply = (event) => {
    event.preventDefault();
    if (form.reportValidity()) app.set({ bandwidth: Number(field.value) > 0 ? field.value : null });
  };
  const form = make('form', { class: 'mfu-fields', on: { submit: apply, change: apply } }, make('label', {}, 'bandwidth ', field, ' GB/s'));
  return form;
}
