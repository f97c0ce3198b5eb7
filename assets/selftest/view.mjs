/**
 * What devices, pairs and groups achieved: mount(element, app, options). Options: {only: 'traffic'} shows
 * the bandwidths between hosts in ordinary steps and nothing else, as a part of another page.
 */
import { make } from '../lib/dom.mjs';
import { makeFetcher } from '../lib/fetcher.mjs';
import { cannotBeShown, sentence } from '../lib/sentences.mjs';
import { sizeText, trafficText } from './cells.mjs';
import { MatrixView } from './matrix.mjs';
import { deviceTable, groupTable, leastRatio, shownRows, TESTS, testTable } from './tables.mjs';

const NEWS_MS = 2000;
const TRAFFIC = { test: 'traffic', bytes: 0, by: 'host' };
const HOW = 'torchrun --nproc-per-node 8 -m trace_hooks.selftest';

export function mount(element, app, options = {}) {
  const view = new SelftestView(element, app, options);
  return { destroy: () => view.destroy() };
}

const keyOf = ({ test, bytes, by }) => `${test} ${bytes} ${by}`;

class SelftestView {
  constructor(element, app, { only = null }) {
    Object.assign(this, { element, app, only, measured: null });
    this.attempt = app.view.attempt;
    this.stop = new AbortController();
    this.picker = make('select', { 'aria-label': 'which bandwidths' });
    this.picker.addEventListener('change', () => app.set({ model: { ...app.view.model, selftest: this.picker.value } }));
    this.about = make('span', { class: 'quiet' });
    this.canvas = make('div', {});
    this.matrix = new MatrixView(this.canvas, app);
    this.matrixPanel = make('section', { class: 'panel', 'aria-label': 'Bandwidth of pairs' },
      make('header', {}, make('h2', {}, 'Bandwidth of pairs'), this.about, this.picker), this.canvas);
    element.replaceChildren(sentence('status', 'Reading what was measured.'));
    this.fetcher = makeFetcher((signal) => this.#load(signal), NEWS_MS);
    const { signal } = this.stop;
    app.addEventListener('run', this.fetcher.news, { signal });
    app.addEventListener('view', () => this.#follow(), { signal });
    this.fetcher.now();
  }

  destroy() {
    this.stop.abort();
    this.fetcher.stop();
    this.matrix.destroy();
  }

  async #load(signal) {
    const { app, attempt } = this;
    try {
      const measured = await app.json(app.api('selftest', { attempt }), signal);
      const choices = this.#choices(measured);
      const chosen = choices.find((choice) => keyOf(choice) === app.view.model.selftest) ?? choices[0];
      const matrix = chosen && await app.arrays(app.api('selftest/matrix', { attempt, ...chosen }), signal);
      if (!signal.aborted) this.#show(measured, choices, chosen, matrix);
    } catch (error) {
      if (error.name === 'AbortError') return;
      this.element.replaceChildren(cannotBeShown('The self-test', error));
    }
  }

  /** Matrices that there are: by rank and by host, the largest messages first. */
  #choices({ tests, devices, has_traffic: hasTraffic }) {
    const pairs = this.only ? [] : tests.filter((test) => test.is_of_pairs).reverse();
    const isOfHosts = new Set(devices.map(({ host }) => host)).size > 1;
    const { attempt } = this;
    return [
      ...pairs.flatMap(({ test, num_bytes: bytes }) => (isOfHosts ? ['host', 'rank'] : ['rank']).map((by) => ({ test, bytes, by }))),
      ...(hasTraffic ? [TRAFFIC] : []),
    ].filter((choice) => this.app.has(this.app.api('selftest/matrix', { attempt, ...choice })));
  }

  #show(measured, choices, chosen, matrix) {
    this.chosen = chosen && keyOf(chosen);
    this.wanted = this.app.view.model.selftest;
    this.picker.replaceChildren(...choices.map((choice) => make('option', { value: keyOf(choice) },
      choice.bytes ? `${TESTS[choice.test]}, ${sizeText(choice.bytes)}, by ${choice.by}` : TESTS[choice.test])));
    if (chosen) this.picker.value = this.chosen;
    this.picker.hidden = choices.length < 2;
    const focused = document.activeElement?.closest?.('.selftest-devices button')?.value;
    this.element.replaceChildren(...this.#parts(measured, chosen, matrix));
    if (focused) this.element.querySelector(`.selftest-devices button[value="${focused}"]`)?.focus();
  }

  #parts(measured, chosen, matrix) {
    const parts = [];
    if (!measured.tests.length && !this.only) parts.push(nothing(measured, matrix?.meta));
    if (measured.notes.length) parts.push(make('section', { class: 'panel note' }, measured.notes.map((text) => make('p', {}, text))));
    if (chosen) {
      this.about.textContent = chosen.test === 'traffic'
        ? 'bus bandwidth that messages and collectives of ordinary steps achieved, GB/s'
        : 'GB/s in each direction, median repetition; both ends send at the same time';
      this.matrix.show({ ...matrix.meta, value: matrix.arrays.value, what: chosen.by });
      parts.push(this.matrixPanel);
    }
    if (this.only) return parts.length ? parts : [make('p', { class: 'sentence' }, 'No transfer between known hosts has a known size and time.')];
    if (measured.tests.length) parts.push(panel('Tests', testTable(measured)));
    if (measured.devices.length) {
      const { rows, about } = shownRows(measured.devices, leastRatio, 'ranks');
      const brackets = 'in brackets: of the median of all ranks';
      parts.push(panel('Devices', deviceTable(rows, this.app), about ? `${about}; ${brackets}` : brackets, 'selftest-devices'));
    }
    if (measured.groups.length) {
      const { rows, about } = shownRows(measured.groups, ({ value }) => value, 'groups');
      parts.push(panel('Groups', groupTable(rows), about));
    }
    return parts;
  }

  #follow() {
    const { attempt, model, rank } = this.app.view;
    if (attempt !== this.attempt || (model.selftest !== this.wanted && model.selftest !== this.chosen)) {
      this.attempt = attempt;
      this.fetcher.now();
    }
    for (const button of this.element.querySelectorAll('.selftest-devices button')) {
      button.setAttribute('aria-pressed', String(button.value === String(rank)));
    }
  }
}

function nothing({ has_traffic: hasTraffic }, matrix) {
  return make('section', { class: 'panel sentence' },
    make('p', {}, make('strong', {}, 'No self-test was run here. '),
      'A self-test measures devices and links before a job starts:'),
    make('pre', {}, make('code', {}, HOW)),
    make('p', {}, hasTraffic ? trafficText(matrix)
      : 'Once steps have sent messages or collectives between known hosts, their bandwidths are shown here.'));
}

function panel(title, content, about = '', className = '') {
  return make('section', { class: `panel ${className}`, 'aria-label': title },
    make('header', {}, make('h2', {}, title), about ? make('span', { class: 'quiet' }, about) : []), content);
}
