/** The table of ranks: sorted, filtered and paged by the server, 50 rows at a time. */
import { loadCulprits, NO_ROLES, rolesShown } from '../lib/culprits.mjs';
import { make } from '../lib/dom.mjs';
import { makeFetcher } from '../lib/fetcher.mjs';
import { formatValue, stepsText } from '../lib/value_text.mjs';

const MS = { unit: 'ms', decimals: 1 };
/** name, title, unit (null: text) and hint of each column. */
export const COLUMNS = [
  ['rank', 'Rank', null, 'global rank'], ['pp', 'PP', null, 'pipeline stage'],
  ['dp', 'DP', null, 'data-parallel replica'], ['tp', 'TP', null, 'position in the tensor-parallel group'],
  ['host', 'Host', null, 'machine'],
  ['slowdown', 'Slowdown', { unit: 'x', decimals: 2 }, 'compute divided by the median of its peers; bold: beyond noise; red: of a rank that a finding names'],
  ['compute_ms', 'Compute', MS, 'time in forward, backward and optimizer, or in compute kernels'],
  ['exposed_comm_ms', 'Exposed comm', MS, 'communication not hidden by compute, waiting included'],
  ['data_wait_ms', 'Data wait', MS, 'waiting for the next batch'],
  ['bubble_ms', 'Idle', MS, 'recorded time in which the rank neither computes, waits for data nor transfers data: schedule bubble, waiting for a rank, host work'],
  ['wait_ms', 'Wait', MS, 'waiting in collectives for ranks that arrived later'],
  ['wait_caused_ms', 'Wait caused', { unit: 'rank-ms', decimals: 1 }, 'waiting time of all other ranks together because this rank arrived last'],
  ['state', 'State', null, 'whether the rank is running, silent, lost or finished'],
];
const TEXT = new Set(['host', 'state']);
const REFETCH_MS = 1000;
const TYPED_MS = 200;

export function mount(element, app) {
  const table = new RankTable(element, app);
  return { destroy: () => table.destroy() };
}

class RankTable {
  constructor(element, app) {
    Object.assign(this, { element, app, sort: 'slowdown', dir: 'desc', page: 0, filter: '', roles: NO_ROLES });
    this.#build();
    this.fetcher = makeFetcher((signal) => this.#fetch(signal), REFETCH_MS);
    this.onView = () => this.#followView();
    this.onRun = () => this.fetcher.news();
    app.addEventListener('view', this.onView);
    app.addEventListener('run', this.onRun);
    this.key = this.#viewKey();
    this.fetcher.now();
  }

  destroy() {
    this.fetcher.stop();
    clearTimeout(this.typing);
    this.app.removeEventListener('view', this.onView);
    this.app.removeEventListener('run', this.onRun);
  }

  #build() {
    this.element.classList.add('rank-table');
    this.search = make('input', {
      type: 'search', placeholder: 'rank, host, pp=3, rank=0-63', 'aria-label': 'filter by rank, host or coordinates',
    });
    this.search.addEventListener('input', () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.#load({ filter: this.search.value, page: 0 }), TYPED_MS);
    });
    this.about = make('span', { class: 'quiet', role: 'status' }, 'Loading the table.');
    this.headers = COLUMNS.map(([name, title, format, hint]) => {
      const button = make('button', { type: 'button', title: hint }, format && format.unit !== 'x' ? `${title}, ${format.unit}` : title);
      button.addEventListener('click', () => this.#load({
        sort: name, page: 0, dir: this.sort === name ? (this.dir === 'desc' ? 'asc' : 'desc') : format ? 'desc' : 'asc',
      }));
      return make('th', { scope: 'col', class: TEXT.has(name) ? null : 'number', 'data-name': name }, button);
    });
    this.body = make('tbody');
    this.pager = make('div', { class: 'pager' });
    const table = make('table', { id: 'rank-table' }, [
      make('caption', { class: 'visually-hidden' }, 'Ranks, means per step'),
      make('thead', {}, make('tr', {}, [...this.headers, make('th', {}, make('span', { class: 'visually-hidden' }, 'timeline'))])), this.body,
    ]);
    this.element.replaceChildren(
      make('div', { class: 'map-head' }, [make('h2', {}, 'Ranks'), this.about, make('div', { class: 'controls' }, this.search)]),
      make('div', { class: 'scroll' }, table), this.pager);
  }

  #viewKey() {
    const { run, attempt, steps, finding } = this.app.view;
    return JSON.stringify([run, attempt, steps, finding]);
  }

  #followView() {
    const key = this.#viewKey();
    if (key !== this.key) {
      this.key = key;
      this.fetcher.news();
    }
    this.#markSelected();
  }

  #load(patch) {
    Object.assign(this, patch);
    this.fetcher.now();
  }

  async #fetch(signal) {
    const { attempt, steps, finding } = this.app.view;
    try {
      const findings = loadCulprits(this.app, signal);
      findings.catch(() => {});
      const answer = await this.app.json(this.app.api('ranks/table', {
        attempt, finding, steps: steps && `${Math.max(0, steps[0])}..${Math.max(0, steps[1])}`,
        sort: this.sort, dir: this.dir, page: this.page, filter: this.filter,
      }), signal);
      this.roles = rolesShown(await findings, this.app.view, answer.steps ?? null);
      if (!signal.aborted) this.#show(answer);
    } catch (error) {
      if (error.name === 'AbortError') return;
      this.about.textContent = error.message;
      this.body.replaceChildren();
    }
  }

  #show({ rows, page, num_pages: pages, num_rows: count, num_ranks: all, steps }) {
    this.page = page;
    const many = `${all.toLocaleString('en')} rank${all === 1 ? '' : 's'}`;
    const of = count === all ? many : `${count.toLocaleString('en')} of ${many}`;
    this.about.textContent = steps ? `${of}, ${steps[0] === steps[1] ? 'values of' : 'means per step over'} ${stepsText(steps)}` : `${of}, no finished step`;
    for (const header of this.headers) {
      const isSorted = header.dataset.name === this.sort;
      if (isSorted) header.setAttribute('aria-sort', this.dir === 'desc' ? 'descending' : 'ascending');
      else header.removeAttribute('aria-sort');
      const button = header.firstChild;
      button.textContent = button.textContent.replace(/ [▾▴]$/, '') + (isSorted ? (this.dir === 'desc' ? ' ▾' : ' ▴') : '');
    }
    this.body.replaceChildren(...(rows.length ? rows.map((row) => this.#row(row))
      : [make('tr', {}, make('td', { colspan: COLUMNS.length + 1, class: 'quiet' }, all ? 'No rank matches this filter.' : 'No rank has reported in this attempt.'))]));
    this.#markSelected();
    this.#showPager(page, pages);
  }

  #row(row) {
    const isCulprit = this.roles.culprits.includes(row.rank);
    const cells = COLUMNS.map(([name, , format]) => {
      const value = row[name];
      const text = value === null ? '–' : format ? formatValue(value, format).replace(/ \S+$/, format.unit === 'x' ? ' x' : '') : String(value);
      const tone = name === 'rank' && isCulprit ? 'fault' : name === 'slowdown' && row.beyond_noise ? (isCulprit ? 'fault' : 'beyond') : '';
      const classes = [TEXT.has(name) ? '' : 'number', tone, value === null ? 'faint' : ''].join(' ').trim();
      return make('td', { class: classes || null, title: value === null ? 'not recorded' : null }, text);
    });
    const link = make('a', { href: this.app.link({ page: 'timeline', rank: row.rank }) }, 'timeline');
    link.addEventListener('click', (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      event.stopPropagation();
      this.app.open({ page: 'timeline', rank: row.rank });
    });
    const line = make('tr', { 'data-rank': row.rank }, [...cells, make('td', {}, link)]);
    line.addEventListener('click', () => this.app.set({ rank: row.rank }));
    return line;
  }

  #markSelected() {
    for (const line of this.body.children) {
      const isSelected = line.dataset.rank === String(this.app.view.rank);
      if (isSelected) line.setAttribute('aria-selected', 'true');
      else line.removeAttribute('aria-selected');
    }
  }

  #showPager(page, pages) {
    if (pages < 2) return this.pager.replaceChildren();
    const button = (text, to, enabled) => {
      const made = make('button', enabled ? {} : { disabled: '' }, text);
      made.addEventListener('click', () => this.#load({ page: to }));
      return made;
    };
    this.pager.replaceChildren(button('previous', page - 1, page > 0),
      make('span', { class: 'quiet' }, `page ${page + 1} of ${pages.toLocaleString('en')}`), button('next', page + 1, page < pages - 1));
  }
}
