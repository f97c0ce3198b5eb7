/** Perturb: what was and is changed in the model, the loss with and without it, and the form that begins one. */
import { make } from '../../lib/dom.mjs';
import { makeFetcher } from '../../lib/fetcher.mjs';
import { stepsText } from '../../lib/value_text.mjs';
import { merged, setModel } from '../shared/model_state.mjs';
import { formatNumber } from '../shared/statistic_scale.mjs';
import { LossPlot } from './loss_plot.mjs';
import { around, compare, differenceText, expectedLosses, isClear, lossesOf, worth } from './loss_series.mjs';
import { PerturbControls } from './perturb_controls.mjs';
import { kindText, listed, placeText, stateText, targetText } from './perturb_form.mjs';

const NEWS_MS = 2000;
const CONNECTED_MS = 2000;
const AGAIN_MS = 3000;
const SINGLE_STEPS = 20_000;
const MOST_RUNS = 200;
const PARTS = [['before', 'before'], ['within', 'within'], ['after', 'after']];

export class PerturbView {
  constructor(element, app) {
    Object.assign(this, { element, app, told: null, connected: null, runs: [] });
    this.#build();
    this.fetcher = makeFetcher((signal) => this.#fetch(signal), NEWS_MS);
    this.listeners = {
      view: () => this.#follow(), run: () => this.fetcher.news(),
      link: ({ detail }) => { if (this.chosen) detail.patch.model = merged(app.view.model, { view: 'perturb', perturbation: this.chosen.key }); },
    };
    for (const [name, listener] of Object.entries(this.listeners)) app.addEventListener(name, listener);
    this.key = this.#viewKey();
    this.asking = setInterval(() => { if (!document.hidden) this.#ask(); }, CONNECTED_MS);
    this.#ask();
    this.#listRuns();
    this.fetcher.now();
  }

  destroy() {
    this.fetcher.stop();
    clearInterval(this.asking);
    clearTimeout(this.again);
    this.isGone = true;
    for (const plot of [this.plot, this.pair]) plot.destroy();
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
    for (const name of ['worth', 'lossSaid']) parts[name] = make('p', { class: 'quiet', role: 'status' });
    parts.pairTitle = make('h2', {}, 'With and without');
    parts.lossSaid.textContent = 'Reading the losses.';
    parts.against = make('select', { 'aria-label': 'compared with' });
    parts.against.addEventListener('change', () => this.#choose(parts.against.value));
    parts.numbers = make('div', { class: 'scroll model-numbers' });
    parts.key = make('p', { class: 'model-key' });
    const tell = {
      chosen: (key) => setModel(this.app, { perturbation: key }, { push: true }),
      pointed: (step) => this.#point(step),
    };
    const loss = make('section', { class: 'panel' }, [make('header', {}, [make('h2', {}, 'Loss'), parts.about]), parts.lossSaid]);
    this.plot = new LossPlot(loss, { label: 'Loss of the run' }, tell);
    parts.pair = make('section', { class: 'panel', hidden: '' }, [
      make('header', {}, [parts.pairTitle, parts.pairAbout, make('label', { class: 'model-against' }, ['compared with ', parts.against])])]);
    this.pair = new LossPlot(parts.pair, { label: 'Loss with and without the perturbation' }, tell);
    parts.pair.append(parts.key, parts.numbers, parts.worth);
    parts.list = make('div', { class: 'scroll' });
    const list = make('section', { class: 'panel model-perturbations' }, [make('header', {}, [make('h2', {}, 'Perturbations'), parts.listAbout]), parts.list]);
    const controls = make('section', { class: 'panel model-controls' });
    this.controls = new PerturbControls(controls, this.app, () => { this.#ask(); this.fetcher.news(); });
    this.element.replaceChildren(make('div', { class: 'model-two' }, [loss, parts.pair]), list, controls);
  }

  #point(step) {
    for (const plot of [this.plot, this.pair]) {
      plot.cursor = step;
      plot.redraw();
    }
  }

  /** Which ranks are connected, and what they are asked for. */
  async #ask() {
    try {
      const connected = await this.app.json(`${this.app.base}/api/connected?run=${encodeURIComponent(this.app.view.run)}`);
      if (this.isGone) return;
      this.connected = connected;
      this.controls.show(connected);
      if (this.told) this.#list();
    } catch (error) {
      if (!this.isGone) this.controls.said.textContent = error.message;
    }
  }

  /** Runs that can be compared with; without them the select has fewer entries. */
  async #listRuns() {
    try {
      const { runs } = await this.app.json(`${this.app.base}/api/runs`);
      if (this.isGone) return;
      this.runs = runs.filter(({ name }) => name !== this.app.view.run).slice(0, MOST_RUNS).map(({ name }) => name);
      if (this.told) this.#options();
    } catch { /* the losses say whether the server is there */ }
  }

  async #fetch(signal) {
    const { app, parts } = this;
    try {
      this.told = await app.json(app.api('model/perturbations'), signal);
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
      parts.lossSaid.hidden = false;
      parts.lossSaid.textContent = error.message;
      parts.lossSaid.classList.add('fault');
    }
  }

  /** Those of the attempt in view; null: of all. */
  #inView() {
    const { attempt } = this.app.view;
    return this.told.perturbations.filter((one) => attempt === null || one.attempt === attempt);
  }

  /** The one of the address, else the newest. */
  #chosen() {
    const known = this.#inView();
    return known.find(({ key }) => key === this.app.view.model.perturbation) ?? known[known.length - 1] ?? null;
  }

  #showLoss(losses, attempt) {
    const { parts } = this;
    parts.lossSaid.classList.remove('fault');
    parts.lossSaid.hidden = losses.num_steps > 0;
    parts.lossSaid.textContent = this.app.view.steps ? 'No loss was logged in these steps: the strip above chooses others.'
      : 'No loss was logged: the job tells it with tracer.log(loss=...).';
    const shown = this.told.perturbations.filter((one) => one.attempt === (attempt ?? one.attempt));
    parts.about.textContent = losses.num_steps ? `${losses.num_steps.toLocaleString('en')} steps`
      + `${this.told.attempts.length > 1 && attempt !== null ? ` of attempt ${attempt}` : ''}${shown.length ? '; perturbations are shaded, a click chooses one' : ''}` : '';
    this.plot.show([{ name: 'loss', losses }], shown, losses.steps, this.chosen?.key ?? null);
  }

  async #showPair(signal) {
    const { app, parts, chosen } = this;
    parts.pair.hidden = chosen === null;
    if (!chosen) return;
    this.#options();
    if (!this.pair.steps) parts.worth.textContent = 'Reading the losses.';
    const [first, last] = around(chosen.first, chosen.last);
    const asked = { steps: `${first}..${last}`, width: SINGLE_STEPS };
    const mine = lossesOf(await app.arrays(app.api('model/losses', { ...asked, attempt: chosen.attempt }), signal));
    const other = this.#other();
    let problem = null;
    let theirs = null;
    if (other) {
      try {
        theirs = lossesOf(await app.arrays(app.api('model/losses', { ...asked, attempt: other.attempt }, other.run), signal));
      } catch (error) {
        if (error.name === 'AbortError') throw error;
        problem = error.message;  // such as: it is being indexed, which ends
        clearTimeout(this.again);
        this.again = setTimeout(() => this.fetcher.news(), AGAIN_MS);
      }
    }
    if (signal.aborted) return;
    const disturbed = this.told.perturbations.filter((one) => one.attempt === chosen.attempt && one !== chosen);
    const found = compare(mine, theirs, chosen, disturbed);
    const end = Math.min(last, Math.max(chosen.last, mine.steps?.[1] ?? 0, theirs?.steps?.[1] ?? 0));
    const without = theirs ? { name: `without: ${other.name}`, losses: theirs }
      : found.expected && { name: 'without: the steps before, continued', losses: expectedLosses(found.expected, [first, end]), expected: found.expected };
    const lines = [{ name: 'with', losses: mine, isWithout: false }, ...(without ? [{ ...without, isWithout: true }] : [])];
    this.pair.show(lines, [chosen, ...disturbed], [first, end], chosen.key);
    parts.pairAbout.textContent = `${kindText(chosen.perturbation)}, ${stepsText([chosen.first, chosen.last])}`;
    parts.worth.textContent = problem ?? worth(found, other?.name ?? null);
    parts.worth.classList.toggle('fault', problem !== null);
    parts.key.replaceChildren(...lines.map(({ name, isWithout }) => make('span', {}, [make('i', { class: isWithout ? 'without' : null }), name])));
    this.#numbers(found);
  }

  #numbers({ parts, bad, hasOther }) {
    const row = ([name, title]) => {
      const part = parts[name];
      const cells = part ? [part.count.toLocaleString('en'), formatNumber(part.withIt), hasOther || name !== 'before' ? formatNumber(part.without) : '',
        hasOther || name !== 'before' ? differenceText(part) : ''] : ['0', '', '', ''];
      return make('tr', {}, [make('th', { scope: 'row' }, title), ...cells.map((text, at) => (
        make('td', { class: `number${at === 3 && part && isClear(part) ? ' model-clear' : ''}` }, text)))]);
    };
    this.parts.numbers.replaceChildren(make('table', {}, [
      make('caption', { class: 'visually-hidden' }, 'Mean loss with and without the perturbation'),
      make('thead', {}, make('tr', {}, ['mean loss', 'steps', 'with', 'without', 'difference'].map((text, at) => (
        make('th', { scope: 'col', class: at ? 'number' : null, title: at === 4 ? 'plus or minus two standard errors, steps taken as independent' : null }, text))))),
      make('tbody', {}, PARTS.map(row)),
    ]), ...(bad ? [make('p', { class: 'fault' }, `The loss was not finite in ${bad} step${bad === 1 ? '' : 's'} of the window.`)] : []));
  }

  /** What the address compares with. @returns {?{run: string, attempt: ?number, name: string}} */
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
    const { parts, chosen, told } = this;
    if (!chosen) return;
    const other = this.#other();
    const { run } = this.app.view;
    const attempts = told.attempts.filter((attempt) => attempt !== chosen.attempt).map((attempt) => [{ attempt }, `attempt ${attempt} of this run`]);
    const runs = this.runs.map((name) => [{ run: name }, `run ${name}`]);
    const value = other ? JSON.stringify({ ...(other.run === run ? {} : { run: other.run }), ...(other.attempt === null ? {} : { attempt: other.attempt }) }) : '';
    const entries = [['', 'its steps before'], ...[...attempts, ...runs].map(([key, text]) => [JSON.stringify(key), text])];
    if (!entries.some(([key]) => key === value)) entries.push([value, other.name]);
    const key = JSON.stringify(entries);
    if (key !== this.optionsKey) parts.against.replaceChildren(...entries.map(([name, text]) => make('option', { value: name }, text)));
    this.optionsKey = key;
    parts.against.value = value;
  }

  #list() {
    const rows = listed(this.#inView(), this.connected?.asked ?? [], this.connected?.step ?? null);
    const key = JSON.stringify([rows, this.chosen?.key, this.connected?.may_ask]);
    if (key === this.listKey) return;
    this.listKey = key;
    const unknown = this.app.view.model.perturbation;
    const isUnknown = unknown && rows.every((one) => one.key !== unknown && `${one.perturbation.id}.${one.first}` !== unknown.replace(/^\d+\./, ''));
    this.parts.listAbout.textContent = isUnknown ? `The link's perturbation ${unknown.slice(0, 80)} is not in this run.` : rows.length ? `${rows.length}` : '';
    if (!rows.length) {
      this.parts.list.replaceChildren(make('p', { class: 'quiet' }, 'Nothing was perturbed in this run.'));
      return;
    }
    this.parts.list.replaceChildren(make('table', {}, [
      make('caption', { class: 'visually-hidden' }, 'Perturbations under way and past'),
      make('thead', {}, make('tr', {}, ['what', 'of', 'where', 'steps', 'ranks', 'state', ''].map((text) => (
        make('th', { scope: 'col', class: text === 'steps' ? 'number' : null }, text))))),
      make('tbody', {}, rows.map((one) => this.#row(one))),
    ]));
  }

  #row(one) {
    const { perturbation } = one;
    const title = kindText(perturbation);
    const isChosen = one.key !== null && one.key === this.chosen?.key;
    return make('tr', { 'aria-selected': String(isChosen) }, [
      make('td', {}, one.key ? this.#link(one.key, title) : title), make('td', {}, targetText(perturbation)), make('td', {}, placeText(perturbation)),
      make('td', { class: 'number' }, one.first === one.last ? String(one.first) : `${one.first} to ${one.last}`),
      make('td', {}, one.ranks), make('td', { class: one.state === 'under way' ? 'model-clear' : 'quiet' }, stateText(one)),
      make('td', {}, one.canEnd && this.connected?.may_ask ? this.#end(perturbation.id) : ''),
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
