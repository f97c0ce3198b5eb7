/** Training health: one statistic of one tensor, layers x steps, as map, curves and histogram. */
import { formatNumber } from '../../lib/value_text.mjs';
import { onTheme, readTheme } from '../../lib/canvas/canvas_theme.mjs';
import { colourTable, cssColour, STRONGEST } from '../../lib/canvas/colour.mjs';
import { make } from '../../lib/dom.mjs';
import { makeFetcher } from '../../lib/fetcher.mjs';
import { sentence } from '../../lib/sentences.mjs';
import { noStatistics } from '../shared/empty_state.mjs';
import { merged, setModel } from '../shared/model_state.mjs';
import { scaleBar } from '../shared/scale_bar.mjs';
import { fillOptions } from '../shared/select_options.mjs';
import { codeOfValue, levelText, makeScale, passed, rangeOf } from '../shared/statistic_scale.mjs';
import { AxisChoice, axisOf } from './axis_choice.mjs';
import { ComparisonRun } from './comparison_run.mjs';
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

const stepsParameter = ({ steps }) => (steps && steps[1] > steps[0] ? `${Math.max(0, steps[0])}..${Math.max(0, steps[1])}` : null);

export class HealthView {
  constructor(element, app) {
    Object.assign(this, { element, app, data: null });
    this.status = sentence('status', 'Reading the statistics.');
    element.replaceChildren(this.status);
    this.fetcher = makeFetcher((signal) => this.#fetch(signal), NEWS_MS);
    this.listeners = {
      view: () => this.#follow(), run: () => this.fetcher.news(),
      link: ({ detail }) => { if (this.data) detail.patch.model = merged(app.view.model, this.#shown()); },
    };
    for (const [name, listener] of Object.entries(this.listeners)) app.addEventListener(name, listener);
    this.stopTheme = onTheme(() => this.#legend());
    this.key = this.#viewKey();
    this.fetcher.now();
  }

  destroy() {
    this.fetcher.stop();
    this.stopTheme();
    this.plots?.forEach((plot) => plot.destroy());
    for (const [name, listener] of Object.entries(this.listeners)) this.app.removeEventListener(name, listener);
  }

  #viewKey() {
    const { run, attempt, model } = this.app.view;
    const { tensor, stat, row, beside } = model;
    return JSON.stringify([run, attempt, stepsParameter(this.app.view), tensor, stat, row, beside, axisOf(model)]);
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

  /** View state that a link needs to open the same view later. */
  #shown() {
    return { tensor: this.data.tensor, stat: this.data.statistic.name, row: this.row?.key };
  }

  async #fetch(signal) {
    const { app } = this;
    try {
      const { attempt } = app.view;
      const recorded = await app.json(app.api('model/recorded', { attempt }), signal);
      if (!recorded.tensors.length) return this.#showEmpty(recorded.can_record);
      if (!this.plots) this.#build();
      const params = { ...this.#chosen(recorded), attempt, steps: stepsParameter(app.view), axis: axisOf(app.view.model) };
      this.#options(recorded, params);
      const width = Math.max(200, Math.round(this.map.stage.clientWidth || this.element.clientWidth) - 60);
      const drawn = { ...params, width, height: ROWS_DRAWN };
      const [answer] = await Promise.all([app.arrays(app.api('model/health', drawn), signal), this.comparison.fetch(drawn, signal)]);
      const data = healthData(answer);
      if (signal.aborted) return undefined;
      this.#show(data);
      await Promise.all([this.axis.fetch(attempt, signal), this.#fetchHistogram(params, width, signal)]);
    } catch (error) {
      if (error.name !== 'AbortError') this.#fail(error.message);
    }
    return undefined;
  }

  /** Tensor and statistic of the view state if the run has them, else the first. */
  #chosen({ tensors }) {
    const { tensor, stat } = this.app.view.model;
    const chosen = tensors.find(({ name }) => name === tensor) ?? tensors[0];
    return { tensor: chosen.name, statistic: (chosen.statistics.find(({ name }) => name === stat) ?? chosen.statistics[0]).name };
  }

  async #fetchHistogram(params, width, signal) {
    const hasHistogram = params.tensor !== 'heads' && this.row;
    this.parts.histogram.hidden = !hasHistogram;
    if (!hasHistogram) return;
    const data = histogramData(await this.app.arrays(
      this.app.api('model/histogram', { ...params, statistic: null, row: this.row.key, width }), signal));
    if (signal.aborted) return;
    this.histogram.show(data, rowText(this.row));
    this.parts.histogramTitle.textContent = `Magnitudes of the values, ${rowText(this.row)}`;
    this.parts.histogramNote.textContent = this.histogram.bins ? 'share of the values between two powers of two' : 'All values are zero.';
  }

  #showEmpty(canRecord) {
    this.#clear();
    this.element.replaceChildren(noStatistics(canRecord));
  }

  #fail(sentence) {
    this.#clear();
    this.status.textContent = sentence;
    this.status.classList.add('failed');
    this.element.replaceChildren(this.status);
  }

  #clear() {
    this.plots?.forEach((plot) => plot.destroy());
    Object.assign(this, { plots: null, data: null });
  }

  #build() {
    const handlers = {
      chosen: (row, step) => setModel(this.app, { row, step }, { push: true }),
      pointed: (step) => this.#point(step),
    };
    const parts = this.parts = {};
    for (const name of ['title', 'histogramTitle']) parts[name] = make('h2');
    for (const name of ['about', 'histogramNote', 'meaning']) parts[name] = make('span', { class: 'quiet' });
    parts.legend = make('div', { class: 'map-legend model-legend' });
    parts.table = make('details', { class: 'worst-cells' });
    parts.map = make('section', { class: 'panel model-map' }, [make('header', {}, [parts.title, parts.about])]);
    this.comparison = new ComparisonRun(this.app);
    this.axis = new AxisChoice(this.app);
    parts.curves = make('section', { class: 'panel model-curves' }, [make('header', {}, [make('h2', {}, 'By layer'), this.comparison.note, this.#smoothing()])]);
    parts.histogram = make('section', { class: 'panel model-histogram' }, [make('header', {}, [parts.histogramTitle, parts.histogramNote])]);
    this.map = new StatMap(parts.map, handlers);
    this.curves = new Curves(parts.curves, handlers);
    this.histogram = new Histogram(parts.histogram, handlers);
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
    return make('section', { class: 'panel model-bar' }, [choice('tensor', 'Tensor'), choice('stat', 'Statistic'), this.axis.element, this.comparison.element, this.parts.meaning, this.axis.note]);
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
    this.curves.comparison = this.comparison.line(this.row, weight);
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
    this.curves.comparison = this.comparison.line(this.row, this.curves.weight);
    this.scale = makeScale(statistic, rangeOf(statistic, this.curves.comparison ? [...data.value, ...this.curves.comparison.values] : data.value));
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

  /** The row shown first: one beyond a level, else the first of the model. */
  #first() {
    return tableRows(this.data, (value) => passed(value, this.data.statistic.levels), 1)[0]?.row ?? null;
  }

  /** Show what is being loaded; long runs take seconds. */
  #options({ tensors }, { tensor, statistic }) {
    const { parts, data } = this;
    if (data?.tensor !== tensor || data.statistic.name !== statistic) parts.about.textContent = 'Reading the statistics.';
    fillOptions(parts.tensor, tensors.map(({ name }) => [name, TITLES[name]]), tensor);
    fillOptions(parts.stat, tensors.find(({ name }) => name === tensor).statistics.map(({ name, title }) => [name, title]), statistic);
  }

  #about() {
    const { data } = this;
    if (!data.width) return 'Nothing was recorded in these steps: choose others in the strip above.';
    const count = `${data.rows.length.toLocaleString('en')} row${data.rows.length === 1 ? '' : 's'} × ${data.num_steps.toLocaleString('en')} step${data.num_steps === 1 ? '' : 's'}`;
    const isPooled = data.height < data.rows.length || data.width < data.num_steps;
    return count + (isPooled ? ', each pixel its worst cell' : '')
      + (data.is_cut ? '; too many to show all at once: choose others in the strip above' : '');
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
    const head = ['row', 'module', 'newest', 'smallest', 'largest', 'worst at step', 'level'];
    const numbers = ({ last, least, greatest }) => [last, least, greatest].map((value) => make('td', { class: 'number' }, formatNumber(value)));
    const wasOpen = this.parts.table.open;
    this.parts.table.replaceChildren(
      make('summary', {}, rows.length < data.rows.length ? `${rows.length} of ${data.rows.length} rows as a table` : 'As a table'),
      make('div', { class: 'scroll' }, make('table', {}, [
        make('caption', { class: 'visually-hidden' }, `${data.statistic.title} by row`),
        make('thead', {}, make('tr', {}, head.map((name, column) => make('th', { scope: 'col', class: column > 1 && column < 6 ? 'number' : null }, name)))),
        make('tbody', {}, rows.map((entry) => make('tr', {}, [
          make('td', {}, this.#rowLink(entry.row)), make('td', { class: 'quiet' }, entry.row.name), ...numbers(entry),
          make('td', { class: 'number' }, formatNumber(entry.worstStep)),
          make('td', { class: entry.level?.severity === 'fault' ? 'fault' : '', title: entry.level?.source }, entry.level ? levelText(entry.level) : ''),
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
