/** Training health: one statistic of one tensor, layers x steps, as map, curves and histogram. */
import { onTheme, readTheme } from '../../lib/canvas/canvas_theme.mjs';
import { colourTable, cssColour, STRONGEST } from '../../lib/canvas/colour.mjs';
import { make } from '../../lib/dom.mjs';
import { makeFetcher } from '../../lib/fetcher.mjs';
import { nothingRecorded } from '../shared/empty_state.mjs';
import { merged, setModel } from '../shared/model_state.mjs';
import { scaleBar } from '../shared/scale_bar.mjs';
import { codeOfValue, formatNumber, levelText, makeScale, passed, rangeOf } from '../shared/statistic_scale.mjs';
import { AxisChoice, axisOf } from './axis_choice.mjs';
import { Beside } from './comparison_run.mjs';
import { Curves } from './curves.mjs';
import { healthData, histogramData, rowText, tableRows } from './health_data.mjs';
import { Histogram } from './histogram.mjs';
import { StatMap } from './stat_map.mjs';

const NEWS_MS = 2000;
const ROWS_DRAWN = 360;
const TITLES = {
  residual: 'Residual stream', attention: 'Attention output', mlp: 'MLP output', output: 'Outside of layers',
  gradient: 'Gradients', weight: 'Weights', update: 'Updates', heads: 'Attention heads',
};

const stepsAsked = ({ steps }) => (steps && steps[1] > steps[0] ? `${Math.max(0, steps[0])}..${Math.max(0, steps[1])}` : null);

export class HealthView {
  constructor(element, app) {
    Object.assign(this, { element, app, data: null });
    this.status = make('p', { class: 'panel sentence', role: 'status' }, 'Reading the statistics.');
    element.replaceChildren(this.status);
    this.fetcher = makeFetcher((signal) => this.#fetch(signal), NEWS_MS);
    this.listeners = {
      view: () => this.#follow(), run: () => this.fetcher.news(),
      link: ({ detail }) => { if (this.data) detail.patch.model = merged(app.view.model, this.#shown()); },
    };
    for (const [name, listener] of Object.entries(this.listeners)) app.addEventListener(name, listener);
    this.endTheme = onTheme(() => this.#legend());
    this.key = this.#viewKey();
    this.fetcher.now();
  }

  destroy() {
    this.fetcher.stop();
    this.endTheme();
    this.plots?.forEach((plot) => plot.destroy());
    for (const [name, listener] of Object.entries(this.listeners)) this.app.removeEventListener(name, listener);
  }

  #viewKey() {
    const { run, attempt, model } = this.app.view;
    const { tensor, stat, row, beside } = model;
    return JSON.stringify([run, attempt, stepsAsked(this.app.view), tensor, stat, row, beside, axisOf(model)]);
  }

  #follow() {
    if (this.app.view.page !== 'model') return;
    const key = this.#viewKey();
    if (key !== this.key) {
      this.key = key;
      this.fetcher.now();
    }
    this.#smooth();
  }

  /** What a link must say so that it opens the same later. */
  #shown() {
    return { tensor: this.data.tensor, stat: this.data.statistic.name, row: this.row?.key };
  }

  async #fetch(signal) {
    const { app } = this;
    try {
      const { attempt } = app.view;
      const told = await app.json(app.api('model/recorded', { attempt }), signal);
      if (!told.tensors.length) return this.#nothing(told.can_record);
      if (!this.plots) this.#build();
      const asked = { ...this.#chosen(told), attempt, steps: stepsAsked(app.view), axis: axisOf(app.view.model) };
      this.#options(told, asked);
      const width = Math.max(200, Math.round(this.map.stage.clientWidth || this.element.clientWidth) - 60);
      const drawn = { ...asked, width, height: ROWS_DRAWN };
      const [answer] = await Promise.all([app.arrays(app.api('model/health', drawn), signal), this.beside.fetch(drawn, signal)]);
      const data = healthData(answer);
      if (signal.aborted) return undefined;
      this.#show(data);
      await Promise.all([this.axis.fetch(attempt, signal), this.#fetchHistogram(asked, width, signal)]);
    } catch (error) {
      if (error.name !== 'AbortError') this.#fail(error.message);
    }
    return undefined;
  }

  /** Tensor and statistic of the link, where the run has them. */
  #chosen({ tensors }) {
    const { tensor, stat } = this.app.view.model;
    const found = tensors.find(({ name }) => name === tensor) ?? tensors[0];
    return { tensor: found.name, statistic: (found.statistics.find(({ name }) => name === stat) ?? found.statistics[0]).name };
  }

  async #fetchHistogram(asked, width, signal) {
    const hasOne = asked.tensor !== 'heads' && this.row;
    this.parts.histogram.hidden = !hasOne;
    if (!hasOne) return;
    const data = histogramData(await this.app.arrays(
      this.app.api('model/histogram', { ...asked, statistic: null, row: this.row.key, width }), signal));
    if (signal.aborted) return;
    this.histogram.show(data, rowText(this.row));
    this.parts.histogramTitle.textContent = `Sizes of the values, ${rowText(this.row)}`;
    this.parts.histogramSaid.textContent = this.histogram.bins ? 'share of the values between two powers of two' : 'No value but zeros.';
  }

  #nothing(canRecord) {
    this.#takeDown();
    this.element.replaceChildren(nothingRecorded(canRecord));
  }

  #fail(sentence) {
    this.#takeDown();
    this.status.textContent = sentence;
    this.status.classList.add('failed');
    this.element.replaceChildren(this.status);
  }

  #takeDown() {
    this.plots?.forEach((plot) => plot.destroy());
    Object.assign(this, { plots: null, data: null });
  }

  #build() {
    const tell = {
      chosen: (row, step) => setModel(this.app, { row, step }, { push: true }),
      pointed: (step) => this.#point(step),
    };
    const parts = this.parts = {};
    for (const name of ['title', 'histogramTitle']) parts[name] = make('h2');
    for (const name of ['about', 'histogramSaid', 'meaning']) parts[name] = make('span', { class: 'quiet' });
    parts.legend = make('div', { class: 'map-legend model-legend' });
    parts.table = make('details', { class: 'worst-cells' });
    parts.map = make('section', { class: 'panel model-map' }, [make('header', {}, [parts.title, parts.about])]);
    this.beside = new Beside(this.app);
    this.axis = new AxisChoice(this.app);
    parts.curves = make('section', { class: 'panel model-curves' }, [make('header', {}, [make('h2', {}, 'By layer'), this.beside.said, this.#smoothing()])]);
    parts.histogram = make('section', { class: 'panel model-histogram' }, [make('header', {}, [parts.histogramTitle, parts.histogramSaid])]);
    this.map = new StatMap(parts.map, tell);
    this.curves = new Curves(parts.curves, tell);
    this.histogram = new Histogram(parts.histogram, tell);
    this.plots = [this.map, this.curves, this.histogram];
    parts.map.append(parts.legend, parts.table);
    parts.curves.hidden = parts.histogram.hidden = parts.table.hidden = true;
    this.element.replaceChildren(this.#choices(), parts.map, make('div', { class: 'model-two' }, [parts.curves, parts.histogram]));
    this.#smooth();
  }

  #choices() {
    const choice = (name, label) => {
      const select = this.parts[name] = make('select', { 'aria-label': label });
      select.addEventListener('change', () => setModel(
        this.app, name === 'tensor' ? { tensor: select.value, row: null } : { stat: select.value }, { push: true }));
      return make('label', {}, [`${label} `, select]);
    };
    return make('section', { class: 'panel model-bar' }, [choice('tensor', 'Tensor'), choice('stat', 'Statistic'), this.axis.element, this.beside.element, this.parts.meaning, this.axis.said]);
  }

  #smoothing() {
    const slider = this.parts.smooth = make('input', { type: 'range', min: '0', max: '0.99', step: '0.01', 'aria-label': 'smoothing' });
    slider.addEventListener('input', () => setModel(this.app, { smooth: Number(slider.value) || null }));
    this.parts.weight = make('output', {});
    return make('label', { class: 'quiet model-smooth' }, ['smoothing ', slider, this.parts.weight]);
  }

  #smooth() {
    if (!this.plots) return;
    const weight = Math.min(0.99, Math.max(0, Number(this.app.view.model.smooth) || 0));
    this.parts.smooth.value = String(weight);
    this.parts.weight.textContent = weight.toFixed(2);
    if (weight === this.curves.weight) return;
    this.curves.beside = this.beside.line(this.row, weight);
    this.curves.smooth(weight);
  }

  #point(step) {
    for (const plot of this.plots) {
      plot.cursor = step;
      plot.redraw();
    }
  }

  #show(data) {
    const { statistic } = data;
    this.data = data;
    this.axis.show(data);
    this.row = data.rows.find(({ key }) => key === this.app.view.model.row) ?? this.#first();
    this.curves.beside = this.beside.line(this.row, this.curves.weight);
    this.scale = makeScale(statistic, rangeOf(statistic, this.curves.beside ? [...data.value, ...this.curves.beside.values] : data.value));
    for (const plot of [this.map, this.curves]) {
      plot.row = this.row?.key ?? null;
      plot.show(data, this.scale);
    }
    const { parts } = this;
    parts.curves.hidden = parts.table.hidden = false;
    parts.title.textContent = `${statistic.title} of ${TITLES[data.tensor].toLowerCase()}`;
    parts.about.textContent = this.#about();
    parts.meaning.textContent = statistic.meaning;
    this.#legend();
    this.#table();
  }

  /** The row to begin with: one beyond a level, else the first. */
  #first() {
    return tableRows(this.data, (value) => passed(value, this.data.statistic.levels), 1)[0]?.row ?? null;
  }

  /** What is shown next; long runs take seconds. */
  #options({ tensors }, { tensor, statistic }) {
    const { parts, data } = this;
    if (data?.tensor !== tensor || data.statistic.name !== statistic) parts.about.textContent = 'Reading the statistics.';
    const fill = (select, entries, value) => {
      select.replaceChildren(...entries.map(([name, text]) => make('option', { value: name }, text)));
      select.value = value;
    };
    fill(parts.tensor, tensors.map(({ name }) => [name, TITLES[name]]), tensor);
    fill(parts.stat, tensors.find(({ name }) => name === tensor).statistics.map(({ name, title }) => [name, title]), statistic);
  }

  #about() {
    const { data } = this;
    if (!data.width) return 'Nothing was recorded in these steps: the strip above chooses others.';
    const count = `${data.rows.length.toLocaleString('en')} row${data.rows.length === 1 ? '' : 's'} × ${data.num_steps.toLocaleString('en')} step${data.num_steps === 1 ? '' : 's'}`;
    const isPooled = data.height < data.rows.length || data.width < data.num_steps;
    return count + (isPooled ? ', each pixel its worst cell' : '')
      + (data.is_cut ? '; all of them are too many at once: the strip above chooses others' : '');
  }

  #legend() {
    if (!this.data) return;
    const { statistic } = this.data;
    const table = colourTable(readTheme());
    const isSigned = statistic.scale === 'signed';
    const ticks = this.scale.ticks.filter(({ at }) => !isSigned || at >= 0.5)
      .map(({ at, text }) => (isSigned ? { at: 2 * at - 1, text: at > 0.5 ? `±${text}` : text } : { at, text }));
    const strength = (at) => 2 * Math.max(1, Math.round(at * STRONGEST));
    const levels = statistic.levels.map((level) => {
      const sign = make('i', { class: level.severity });
      if (level.severity !== 'usual') sign.style.background = cssColour(table, codeOfValue(level.is_above ? Infinity : -Infinity, { levels: [level] }, null));
      return make('span', { class: 'model-level', title: `Source: ${level.source}` }, [sign, make('abbr', { title: `Source: ${level.source}` }, levelText(level))]);
    });
    this.parts.legend.replaceChildren(
      scaleBar(`Colour scale of ${statistic.title}`, table, strength, ticks),
      make('div', { class: 'model-levels' }, levels));
  }

  #table() {
    const { data } = this;
    const rows = tableRows(data, (value) => passed(value, data.statistic.levels));
    const head = ['row', 'module', 'newest', 'least', 'greatest', 'worst at step', 'level'];
    const numbers = ({ last, least, greatest }) => [last, least, greatest].map((value) => make('td', { class: 'number' }, formatNumber(value)));
    const wasOpen = this.parts.table.open;
    this.parts.table.replaceChildren(
      make('summary', {}, rows.length < data.rows.length ? `${rows.length} of ${data.rows.length} rows as a table` : 'As a table'),
      make('div', { class: 'scroll' }, make('table', {}, [
        make('caption', { class: 'visually-hidden' }, `${data.statistic.title} by row`),
        make('thead', {}, make('tr', {}, head.map((name, at) => make('th', { scope: 'col', class: at > 1 && at < 6 ? 'number' : null }, name)))),
        make('tbody', {}, rows.map((one) => make('tr', {}, [
          make('td', {}, this.#rowLink(one.row)), make('td', { class: 'quiet' }, one.row.name), ...numbers(one),
          make('td', { class: 'number' }, formatNumber(one.worstStep)),
          make('td', { class: one.level?.severity === 'fault' ? 'fault' : '', title: one.level?.source }, one.level ? levelText(one.level) : ''),
        ]))),
      ])));
    this.parts.table.open = wasOpen;
  }

  #rowLink(row) {
    const link = make('a', { href: this.app.link({ model: merged(this.app.view.model, { row: row.key }) }) }, rowText(row));
    link.addEventListener('click', (event) => {
      event.preventDefault();
      setModel(this.app, { row: row.key }, { push: true });
    });
    return link;
  }
}
