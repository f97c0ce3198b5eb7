/** Perturb: the loss with and without a perturbation, all perturbations, and the form that begins one. */
import { make } from '../../lib/dom.mjs';
import { makeFetcher } from '../../lib/fetcher.mjs';
import { formatNumber, stepsText } from '../../lib/value_text.mjs';
import { merged, setModel } from '../shared/model_state.mjs';
import { LossPlot } from './loss_plot.mjs';
import { around, compare, differenceText, expectedLosses, isClear, lossesOf, reliabilityText } from './loss_series.mjs';
import { PerturbControls } from './perturb_controls.mjs';
import { kindText, perturbationRows, placeText, stateText, targetText } from './perturb_form.mjs';

const NEWS_MS = 2000;
const POLL_MS = 2000;
const RETRY_MS = 3000;
const SINGLE_STEPS = 20_000;
const MOST_RUNS = 200;
const PARTS = [['before', 'before'], ['within', 'during'], ['after', 'after']];

export class PerturbView {
  constructor(element, app) {
    Object.assign(this, { element, app, recorded: null, connected: null, runs: [] });
    this.#build();
    this.fetcher = makeFetcher((signal) => this.#fetch(signal), NEWS_MS);
    this.listeners = {
      view: () => this.#follow(), run: () => this.fetcher.news(),
      link: ({ detail }) => { if (this.chosen) detail.patch.model = merged(app.view.model, { view: 'perturb', perturbation: this.chosen.key }); },
    };
    for (const [name, listener] of Object.entries(this.listeners)) app.addEventListener(name, listener);
    this.key = this.#viewKey();
    this.pollTimer = setInterval(() => { if (!document.hidden) this.#loadConnected(); }, POLL_MS);
    this.#loadConnected();
    this.#listRuns();
    this.fetcher.now();
  }

  destroy() {
    this.fetcher.stop();
    clearInterval(this.pollTimer);
    clearTimeout(this.retryTimer);
    this.isDestroyed = true;
    for (const plot of [this.plot, this.comparisonPlot]) plot.destroy();
    for (const [name, listener] of Object.entries(this.listeners)) this.app.removeEventListener(name, listener);
  }

  #viewKey() {
    const { run, attempt, steps, model } = this.app.view;
    return JSON.stringify([run, attempt, steps, model.perturbation, model.against, model.against_attempt]);
  }

  #follow() {
    if (this.app.view.page !== 'model') return;
    this.controls.follow();
    const key = this.#viewKey();
    if (key === this.key) return;
    this.key = key;
    this.fetcher.now();
  }

  #build() {
    const parts = this.parts = {};
    for (const name of ['about', 'pairAbout', 'listAbout']) parts[name] = make('span', { class: 'quiet' });
    for (const name of ['reliability', 'lossNote']) parts[name] = make('p', { class: 'quiet', role: 'status' });
    parts.pairTitle = make('h2', {}, 'With and without');
    parts.lossNote.textContent = 'Reading the losses.';
    parts.against = make('select', { 'aria-label': 'compared with' });
    parts.against.addEventListener('change', () => this.#choose(parts.against.value));
    parts.numbers = make('div', { class: 'scroll model-numbers' });
    parts.key = make('p', { class: 'model-key' });
    const handlers = {
      chosen: (key) => setModel(this.app, { perturbation: key }, { push: true }),
      pointed: (step) => this.#point(step),
    };
    const loss = make('section', { class: 'panel' }, [make('header', {}, [make('h2', {}, 'Loss'), parts.about]), parts.lossNote]);
    this.plot = new LossPlot(loss, { label: 'Loss of the run' }, handlers);
    parts.pair = make('section', { class: 'panel', hidden: '' }, [
      make('header', {}, [parts.pairTitle, parts.pairAbout, make('label', { class: 'model-against' }, ['compared with ', parts.against])])]);
    this.comparisonPlot = new LossPlot(parts.pair, { label: 'Loss with and without the perturbation' }, handlers);
    parts.pair.append(parts.key, parts.numbers, parts.reliability);
    parts.list = make('div', { class: 'scroll' });
    const list = make('section', { class: 'panel model-perturbations' }, [make('header', {}, [make('h2', {}, 'Perturbations'), parts.listAbout]), parts.list]);
    const controls = make('section', { class: 'panel model-controls' });
    this.controls = new PerturbControls(controls, this.app, () => { this.#loadConnected(); this.fetcher.news(); });
    this.element.replaceChildren(make('div', { class: 'model-two' }, [loss, parts.pair]), list, controls);
  }

  #point(step) {
    for (const plot of [this.plot, this.comparisonPlot]) {
      plot.cursor = step;
      plot.redraw();
    }
  }

  /** Load the connected ranks and the perturbations requested from them. */
  async #loadConnected() {
    try {
      const connected = await this.app.json(`${this.app.base}/api/connected?run=${encodeURIComponent(this.app.view.run)}`);
      if (this.isDestroyed) return;
      this.connected = connected;
      this.controls.show(connected);
      if (this.recorded) this.#list();
    } catch (error) {
      if (!this.isDestroyed) this.controls.status.textContent = error.message;
    }
  }

  /** Load the runs to compare with; without an answer there are fewer. */
  async #listRuns() {
    try {
      const { runs } = await this.app.json(`${this.app.base}/api/runs`);
      if (this.isDestroyed) return;
      this.runs = runs.filter(({ name }) => name !== this.app.view.run).slice(0, MOST_RUNS).map(({ name }) => name);
      if (this.recorded) this.#options();
    } catch { /* loading the losses shows whether the server can be reached */ }
  }

  async #fetch(signal) {
    const { app, parts } = this;
    try {
      this.recorded = await app.json(app.api('model/perturbations'), signal);
      this.chosen = this.#chosen();
      this.#list();
      const attempt = this.chosen?.attempt ?? app.view.attempt;
      const width = Math.max(100, Math.round(this.plot.stage.clientWidth || 600) - 70);
      const steps = app.view.steps ? app.view.steps.map((step) => Math.max(0, step)).join('..') : null;
      const losses = lossesOf(await app.arrays(app.api('model/losses', { attempt, steps, width }), signal));
      if (signal.aborted) return;
      this.#showLoss(losses, attempt);
      await this.#showPair(signal);
    } catch (error) {
      if (error.name === 'AbortError') return;
      parts.lossNote.hidden = false;
      parts.lossNote.textContent = error.message;
      parts.lossNote.classList.add('fault');
    }
  }

  /** Perturbations of the attempt in view, or of all attempts. */
  #inView() {
    const { attempt } = this.app.view;
    return this.recorded.perturbations.filter((perturbation) => attempt === null || perturbation.attempt === attempt);
  }

  /** The perturbation of the view state, else the newest. */
  #chosen() {
    const known = this.#inView();
    return known.find(({ key }) => key === this.app.view.model.perturbation) ?? known[known.length - 1] ?? null;
  }

  #showLoss(losses, attempt) {
    const { parts } = this;
    parts.lossNote.classList.remove('fault');
    parts.lossNote.hidden = losses.num_steps > 0;
    parts.lossNote.textContent = this.app.view.steps ? 'No loss was logged in these steps: choose others in the strip above.'
      : 'No loss was logged. A job logs it with tracer.log(loss=...).';
    const shown = this.recorded.perturbations.filter((perturbation) => perturbation.attempt === (attempt ?? perturbation.attempt));
    parts.about.textContent = losses.num_steps ? `${losses.num_steps.toLocaleString('en')} steps`
      + `${this.recorded.attempts.length > 1 && attempt !== null ? ` of attempt ${attempt}` : ''}${shown.length ? '; perturbations are shaded, click to choose one' : ''}` : '';
    this.plot.show([{ name: 'loss', losses }], shown, losses.steps, this.chosen?.key ?? null);
  }

  async #showPair(signal) {
    const { app, parts, chosen } = this;
    parts.pair.hidden = chosen === null;
    if (!chosen) return;
    this.#options();
    if (!this.comparisonPlot.steps) parts.reliability.textContent = 'Reading the losses.';
    const [first, last] = around(chosen.first, chosen.last);
    const params = { steps: `${first}..${last}`, width: SINGLE_STEPS };
    const mine = lossesOf(await app.arrays(app.api('model/losses', { ...params, attempt: chosen.attempt }), signal));
    const other = this.#other();
    let problem = null;
    let theirs = null;
    if (other) {
      try {
        theirs = lossesOf(await app.arrays(app.api('model/losses', { ...params, attempt: other.attempt }, other.run), signal));
      } catch (error) {
        if (error.name === 'AbortError') throw error;
        problem = error.message;  // for example while the run is being indexed
        clearTimeout(this.retryTimer);
        this.retryTimer = setTimeout(() => this.fetcher.news(), RETRY_MS);
      }
    }
    if (signal.aborted) return;
    const disturbed = this.recorded.perturbations.filter((other) => other.attempt === chosen.attempt && other !== chosen);
    const comparison = compare(mine, theirs, chosen, disturbed);
    const end = Math.min(last, Math.max(chosen.last, mine.steps?.[1] ?? 0, theirs?.steps?.[1] ?? 0));
    const without = theirs ? { name: `without: ${other.name}`, losses: theirs }
      : comparison.expected && { name: 'without: the steps before, extrapolated', losses: expectedLosses(comparison.expected, [first, end]), expected: comparison.expected };
    const lines = [{ name: 'with', losses: mine, isWithout: false }, ...(without ? [{ ...without, isWithout: true }] : [])];
    this.comparisonPlot.show(lines, [chosen, ...disturbed], [first, end], chosen.key);
    parts.pairAbout.textContent = `${kindText(chosen.perturbation)}, ${stepsText([chosen.first, chosen.last])}`;
    parts.reliability.textContent = problem ?? reliabilityText(comparison, other?.name ?? null);
    parts.reliability.classList.toggle('fault', problem !== null);
    parts.key.replaceChildren(...lines.map(({ name, isWithout }) => make('span', {}, [make('i', { class: isWithout ? 'without' : null }), name])));
    this.#numbers(comparison);
  }

  #numbers({ parts, bad, hasOther }) {
    const row = ([name, title]) => {
      const part = parts[name];
      const cells = part ? [part.count.toLocaleString('en'), formatNumber(part.withIt), hasOther || name !== 'before' ? formatNumber(part.without) : '',
        hasOther || name !== 'before' ? differenceText(part) : ''] : ['0', '', '', ''];
      return make('tr', {}, [make('th', { scope: 'row' }, title), ...cells.map((text, column) => (
        make('td', { class: `number${column === 3 && part && isClear(part) ? ' model-clear' : ''}` }, text)))]);
    };
    this.parts.numbers.replaceChildren(make('table', {}, [
      make('caption', { class: 'visually-hidden' }, 'Mean loss with and without the perturbation'),
      make('thead', {}, make('tr', {}, ['mean loss', 'steps', 'with', 'without', 'difference'].map((text, column) => (
        make('th', { scope: 'col', class: column ? 'number' : null, title: column === 4 ? 'plus or minus two standard errors, assuming that steps are independent' : null }, text))))),
      make('tbody', {}, PARTS.map(row)),
    ]), ...(bad ? [make('p', { class: 'fault' }, `The loss was not finite in ${bad} step${bad === 1 ? '' : 's'} of the window.`)] : []));
  }

  /** The run or attempt that the view state compares with. @returns {?{run: string, attempt: ?number, name: string}} */
  #other() {
    const { run, model: { against, against_attempt: attempt } } = this.app.view;
    if (!against && !attempt) return null;
    const isNumber = /^\d{1,6}$/.test(attempt ?? '');
    const other = { run: against || run, attempt: isNumber ? Number(attempt) : null };
    return { ...other, name: [other.run === run ? null : `run ${other.run}`, other.attempt === null ? null : `attempt ${other.attempt}`].filter(Boolean).join(', ') };
  }

  #choose(value) {
    const { run = null, attempt = null } = value ? JSON.parse(value) : {};
    setModel(this.app, { against: run, against_attempt: attempt }, { push: true });
  }

  #options() {
    const { parts, chosen, recorded } = this;
    if (!chosen) return;
    const other = this.#other();
    const { run } = this.app.view;
    const attempts = recorded.attempts.filter((attempt) => attempt !== chosen.attempt).map((attempt) => [{ attempt }, `attempt ${attempt} of this run`]);
    const runs = this.runs.map((name) => [{ run: name }, `run ${name}`]);
    const value = other ? JSON.stringify({ ...(other.run === run ? {} : { run: other.run }), ...(other.attempt === null ? {} : { attempt: other.attempt }) }) : '';
    const entries = [['', 'the steps before'], ...[...attempts, ...runs].map(([key, text]) => [JSON.stringify(key), text])];
    if (!entries.some(([key]) => key === value)) entries.push([value, other.name]);
    const key = JSON.stringify(entries);
    if (key !== this.optionsKey) parts.against.replaceChildren(...entries.map(([name, text]) => make('option', { value: name }, text)));
    this.optionsKey = key;
    parts.against.value = value;
  }

  #list() {
    const rows = perturbationRows(this.#inView(), this.connected?.asked ?? [], this.connected?.step ?? null);
    const key = JSON.stringify([rows, this.chosen?.key, this.connected?.may_ask]);
    if (key === this.listKey) return;
    this.listKey = key;
    const unknown = this.app.view.model.perturbation;
    const isUnknown = unknown && rows.every((row) => row.key !== unknown && `${row.perturbation.id}.${row.first}` !== unknown.replace(/^\d+\./, ''));
    this.parts.listAbout.textContent = isUnknown ? `The link's perturbation ${unknown.slice(0, 80)} is not in this run.` : rows.length ? `${rows.length}` : '';
    if (!rows.length) {
      this.parts.list.replaceChildren(make('p', { class: 'quiet' }, 'Nothing was perturbed in this run.'));
      return;
    }
    this.parts.list.replaceChildren(make('table', {}, [
      make('caption', { class: 'visually-hidden' }, 'Perturbations under way and past'),
      make('thead', {}, make('tr', {}, ['what', 'target', 'where', 'steps', 'ranks', 'state', ''].map((text) => (
        make('th', { scope: 'col', class: text === 'steps' ? 'number' : null }, text))))),
      make('tbody', {}, rows.map((row) => this.#row(row))),
    ]));
  }

  #row(row) {
    const { perturbation } = row;
    const title = kindText(perturbation);
    const isChosen = row.key !== null && row.key === this.chosen?.key;
    return make('tr', { 'aria-selected': String(isChosen) }, [
      make('td', {}, row.key ? this.#link(row.key, title) : title), make('td', {}, targetText(perturbation)), make('td', {}, placeText(perturbation)),
      make('td', { class: 'number' }, row.first === row.last ? String(row.first) : `${row.first} to ${row.last}`),
      make('td', {}, row.ranks), make('td', { class: row.state === 'under way' ? 'model-clear' : 'quiet' }, stateText(row)),
      make('td', {}, row.canEnd && this.connected?.may_ask ? this.#end(perturbation.id) : ''),
    ]);
  }

  #link(key, text) {
    const link = make('a', { href: this.app.link({ model: merged(this.app.view.model, { perturbation: key }) }) }, text);
    link.addEventListener('click', (event) => {
      event.preventDefault();
      setModel(this.app, { perturbation: key }, { push: true });
    });
    return link;
  }

  #end(id) {
    const button = make('button', { 'aria-label': `end ${id}` }, 'End');
    button.addEventListener('click', () => this.controls.end(id));
    return button;
  }
}
