/** What the pipeline would take under other schedules: changes of the job, a table, and one step as a timeline. */
import { onTheme } from '../lib/canvas/canvas_theme.mjs';
import { LABEL_OF_KIND, readTheme } from '../lib/canvas/kind_colours.mjs';
import { isSoftwareGl } from '../lib/canvas/software_gl.mjs';
import { placeTip, pointOn } from '../lib/canvas/tooltip.mjs';
import { make } from '../lib/dom.mjs';
import { asSentence } from '../lib/sentences.mjs';
import { seconds } from './messages.mjs';
import { draw, KINDS, layoutOf, opAt } from './schedule_lanes.mjs';

const percent = (share) => `${(100 * share).toFixed(1)} %`;
const TITLES = ['schedule', 'pipeline takes', '10 % to 90 % of the steps', 'of 1F1B', 'idle', 'micro-batches held', 'devices'];
const NUMBERS = [
  ['microbatches', 'micro-batches', 'm', 'the same tokens in so many micro-batches'],
  ['chunks', 'chunks', 'v', 'model chunks of a stage, for schedules that have several'],
  ['held', 'held at most', 'any', 'micro-batches that a device may hold at once'],
  ['memory', 'memory, GB', 'any', 'that a device may have allocated, 1e9 bytes; where the run recorded it', 'any'],
  ['forward_speed', 'fbd: speed of forwards', '1', 'of fbd: how fast the devices of forwards are, 1 as fast as measured', 'any'],
  ['handover_ms', 'fbd: hand-over, ms', '0', 'of fbd: handing the activations of a micro-batch from the device of its forward to that of its backward', 'any'],
];

/** Parameters of a request, from the fields p.NAME of a link. Pure. */
export const changesOf = ({ microbatches, chunks, held, memory, split, stragglers, forward_speed: speed, handover_ms: handover }) => ({
  microbatches, chunks, held, memory, split, stragglers, forward_speed: speed, handover_ms: handover,
});

const many = (number, one, more) => `${number} ${Number(number) === 1 ? one : more}`;

/** What a shared file says instead of its controls. Pure. @param {Object<string, string>} pipeline fields p.NAME of the link */
export function fileText({ microbatches, chunks, held, memory, split, stragglers, forward_speed: speed, handover_ms: handover }) {
  const changes = [
    microbatches && many(microbatches, 'micro-batch', 'micro-batches'), chunks && `${many(chunks, 'chunk', 'chunks')} of a stage`,
    held && `at most ${many(held, 'micro-batch', 'micro-batches')} held`, memory && `${memory} GB for a device`,
    split && (split === 'equal' ? 'equal stages' : `stages of ${split}`), stragglers === 'no' && 'no stragglers',
    speed && `forwards of fbd on devices ${speed} times as fast`, handover && `${handover} ms to hand over activations`,
  ].filter(Boolean);
  const job = changes.length ? `the job with ${changes.join(', ')}` : 'the job as it ran';
  return `This file holds predictions for ${job}; the live page also predicts other micro-batches, chunks, stages and limits.`;
}

/** '5.6 GB, 21.3 GB in all', '12 MB': activations, and the peak of the fullest device. Pure. */
export function memoryText({ memory_bytes: held, peak_bytes: peaks }) {
  const amount = (bytes) => (bytes >= 0.9995e9 ? `${(bytes / 1e9).toPrecision(3)} GB` : `${(bytes / 1e6).toPrecision(3)} MB`);
  if (held === null || held === undefined) return '';
  return peaks ? `${amount(held)}, ${amount(Math.max(...peaks))} in all` : amount(held);
}

/** Rows of the table and the sentences below it. Pure. @param {{schedules: object[]}} answer of what-if/schedules */
export function scheduleRows({ schedules }) {
  const known = schedules.filter((one) => one.span_s !== null);
  const cost = (one) => one.expected_s * one.num_devices;
  const most = Math.max(...known.map(cost), 1e-12);
  const usual = known.find((one) => one.name === '1f1b');
  const rows = known.sort((a, b) => cost(a) - cost(b)).map((one) => ({
    name: one.name,
    span: seconds(one.expected_s),
    between: `${seconds(one.low_s)} to ${seconds(one.high_s)}`,
    than: usual ? `${(one.expected_s / usual.expected_s).toFixed(2)} x` : '',
    bubble: percent(one.expected_bubble),
    held: String(Number(Math.max(...one.in_flight).toFixed(2))),
    memory: memoryText(one),
    devices: String(one.num_devices),
    share: cost(one) / most,
  }));
  const assumed = new Map();
  for (const one of known) for (const text of one.assumptions) assumed.set(text, [...(assumed.get(text) ?? []), one.name]);
  const notes = [...assumed].map(([text, names]) => (names.length === known.length ? text : `${text} (${names.join(', ')})`));
  const impossible = schedules.filter((one) => one.reason).map((one) => `${one.name}: ${one.reason}.`);
  return { rows, notes, impossible };
}

/** The section of the page; its state is the view's field `pipeline`. */
export class Schedules {
  /** @param {(path: string, params: object, signal: AbortSignal) => Promise<object>} ask a route below what-if/ */
  constructor(element, app, ask) {
    Object.assign(this, { element, app, ask, answer: null, shown: null, request: null });
    this.controls = this.#makeControls();
    this.status = make('p', { class: 'quiet', role: 'status' }, 'Replaying other schedules.');
    this.table = make('div');
    this.canvas = make('canvas', { role: 'img', 'aria-label': 'One step as measured and under another schedule' });
    this.tip = make('div', { class: 'map-tip', hidden: '' });
    this.stage = make('div', { class: 'whatif-replay' }, [this.canvas, this.tip]);
    this.about = make('p', { class: 'quiet', role: 'status' });
    this.legend = make('div', { class: 'tl-legend' });
    this.stage.hidden = true;
    element.replaceChildren(
      make('header', {}, [make('h2', {}, 'Other schedules'),
        make('span', { class: 'quiet' }, 'the measured operations in the order of other pipeline schedules; least time of all devices first'),
        app.computes ? this.controls : make('span', { class: 'quiet' }, fileText(app.view.pipeline))]),
      this.status, this.table, this.about, this.stage, this.legend);
    this.context = this.canvas.getContext('2d', { willReadFrequently: isSoftwareGl() });
    this.stopTheme = onTheme(() => this.#draw());
    this.resizing = new ResizeObserver(() => this.#draw());
    this.resizing.observe(this.stage);
    this.canvas.addEventListener('pointermove', (event) => this.#point(pointOn(this.canvas, event)));
    this.canvas.addEventListener('pointerleave', () => { this.tip.hidden = true; });
  }

  destroy() {
    this.request?.abort();
    this.resizing.disconnect();
    this.stopTheme();
  }

  /** Ask for the predictions, then for the timeline. */
  async load() {
    this.request?.abort();
    const { signal } = this.request = new AbortController();
    this.#fillControls();
    const changes = this.app.computes ? changesOf(this.app.view.pipeline) : {};
    this.status.hidden = false;
    this.status.textContent = 'Replaying other schedules.';
    this.status.classList.remove('failed');
    try {
      const answer = await this.ask('schedules', changes, signal);
      if (signal.aborted) return;
      this.answer = answer;
      this.element.hidden = Boolean(answer.reason);
      if (answer.reason) return;
      this.status.hidden = true;
      this.#fillControls();
      this.#showTable();
      const name = this.#chosen();
      const shown = name ? await this.ask('schedule', { ...changes, name }, signal) : null;
      if (signal.aborted) return;
      this.shown = shown?.measured ? { ...shown, name } : null;
      this.#showTimeline(shown);
    } catch (error) {
      if (error.name === 'AbortError') return;
      this.status.hidden = false;
      this.status.textContent = asSentence(error.message);
      this.status.classList.add('failed');
      this.#clear();
    }
  }

  #clear() {
    this.shown = null;
    this.table.replaceChildren();
    this.#showTimeline(null);
  }

  #makeControls() {
    const change = (patch) => this.app.set({ pipeline: { ...this.app.view.pipeline, ...patch } });
    this.inputs = {};
    const numbers = NUMBERS.map(([name, label, placeholder, title, step = '1']) => {
      const input = make('input', { type: 'number', min: step === '1' ? '1' : '0', step, placeholder, title, class: 'whatif-number', 'aria-label': `${label}: ${title}` });
      input.addEventListener('change', () => change({ [name]: input.value }));
      this.inputs[name] = input;
      return make('label', { title }, [`${label} `, input]);
    });
    const split = make('input', { type: 'text', list: 'whatif-splits', placeholder: 'as measured', class: 'whatif-split', 'aria-label': 'shares of the stages, such as 1,1,1,0.8, or equal' });
    split.addEventListener('change', () => change({ split: split.value.replace(/\s/g, '') }));
    const stragglers = make('input', { type: 'checkbox' });
    stragglers.addEventListener('change', () => change({ stragglers: stragglers.checked ? 'no' : '' }));
    const reset = make('button', { type: 'button' }, 'As measured');
    reset.addEventListener('click', () => this.app.set({ pipeline: {} }));
    Object.assign(this.inputs, { split, stragglers });
    return make('span', { class: 'whatif-controls' }, [
      ...numbers, make('label', { title: 'Shares of the layers by stage: equal, or such as 1,1,1,0.8' }, ['stages ', split]),
      make('datalist', { id: 'whatif-splits' }, [make('option', { value: 'equal' })]),
      make('label', { title: 'All ranks, micro-batches and steps of a stage take its median time' }, [stragglers, ' without stragglers']), reset,
    ]);
  }

  #fillControls() {
    const { pipeline } = this.app.view;
    for (const name of [...NUMBERS.map(([field]) => field), 'split']) {
      if (document.activeElement !== this.inputs[name]) this.inputs[name].value = pipeline[name] ?? '';
    }
    this.inputs.stragglers.checked = pipeline.stragglers === 'no';
    const { sizes } = this.answer ?? {};
    if (sizes) [this.inputs.microbatches.placeholder, this.inputs.chunks.placeholder] = [String(sizes.m), String(sizes.v)];
  }

  /** The schedule of the timeline: of the link, else the first one. */
  #chosen() {
    const known = this.answer.schedules.filter((one) => one.span_s !== null).map((one) => one.name);
    const wanted = this.app.view.pipeline.schedule;
    return known.includes(wanted) ? wanted : scheduleRows(this.answer).rows[0]?.name;
  }

  #showTable() {
    const { rows, notes, impossible } = scheduleRows(this.answer);
    const chosen = this.#chosen();
    const hasMemory = rows.some((row) => row.memory);
    const titles = hasMemory ? [...TITLES, 'memory'] : TITLES;
    const cells = (row) => [row.span, row.between, row.than, row.bubble, row.held, row.devices, ...(hasMemory ? [row.memory] : [])].map((text) => make('td', { class: 'number' }, text));
    const bar = (row) => {
      const line = make('i', { 'aria-hidden': 'true', class: 'noise' });
      line.style.width = `${(100 * row.share).toFixed(1)}%`;
      return make('td', { class: 'whatif-bar' }, line);
    };
    const button = (name) => {
      const made = make('button', { type: 'button', class: 'whatif-choose', 'aria-pressed': String(name === chosen), title: `Show a step under ${name}` }, name);
      made.addEventListener('click', () => this.app.set({ pipeline: { ...this.app.view.pipeline, schedule: name } }));
      return made;
    };
    this.table.replaceChildren(
      make('div', { class: 'scroll' }, make('table', {}, [
        make('caption', { class: 'visually-hidden' }, 'Pipeline schedules and what they would take'),
        make('thead', {}, make('tr', {}, [...titles.map((title, i) => make('th', { scope: 'col', class: i ? 'number' : null }, title)), make('th', { 'aria-hidden': 'true' })])),
        make('tbody', {}, rows.map((row) => make('tr', { class: row.name === chosen ? 'chosen' : null }, [make('th', { scope: 'row' }, button(row.name)), ...cells(row), bar(row)]))),
      ])),
      ...impossible.map((text) => make('p', { class: 'map-note' }, `Not possible: ${text}`)),
      make('details', { class: 'whatif-notes' }, [
        make('summary', {}, `${notes.length} assumption${notes.length === 1 ? '' : 's'}`),
        make('ul', {}, notes.map((text) => make('li', {}, text))),
      ]));
  }

  #showTimeline(answer) {
    this.stage.hidden = this.legend.hidden = !this.shown;
    if (!this.shown) {
      this.about.textContent = answer?.reason ? `No timeline: ${answer.reason}.` : '';
      return;
    }
    const { step, replica, name } = this.shown;
    const isOne = this.shown.measured.length === this.shown.predicted.length;
    this.about.textContent = `Step ${step} of dp rank ${replica}, the slowest replica in the step of median length. Numbers are micro-batches; fainter: odd chunks.${isOne ? '' : ` ${name} runs forwards on the first half of its devices, backwards on the others.`}${name === 'zb-h2' ? ' This is one step by itself: the next one begins before it ends, and the table has the time from step to step.' : ''}`;
    this.canvas.setAttribute('aria-label', `Step ${step}: forwards and backwards of ${this.shown.measured.length} devices as measured, above the same under ${name}; the table above has the times.`);
    this.#draw();
  }

  #draw() {
    const width = this.stage.clientWidth;
    if (!this.shown || !width) return;
    this.layout = layoutOf(this.shown, width);
    const px = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * px);
    this.canvas.height = Math.round(this.layout.height * px);
    this.canvas.style.height = `${this.layout.height}px`;
    this.context.setTransform(px, 0, 0, px, 0, 0);
    const theme = readTheme(this.element);
    draw(this.context, this.shown, this.layout, this.shown.name, theme);
    const kinds = new Set([...this.shown.measured, ...this.shown.predicted].flat().map(([kind]) => KINDS[kind]));
    this.legend.replaceChildren(...[...kinds].map((kind) => {
      const swatch = make('span', { class: 'swatch' });
      swatch.style.setProperty('--c', theme.kind[kind]);
      return make('span', {}, [swatch, LABEL_OF_KIND[kind]]);
    }));
  }

  #point(point) {
    const found = this.shown && this.layout ? opAt(this.shown, this.layout, point) : null;
    this.tip.hidden = !found;
    if (!found) return;
    const [kind, microbatch, chunk, begin, end] = found.op;
    const hasChunks = this.shown.predicted.flat().some((op) => op[2] > 0);
    this.tip.replaceChildren(
      make('b', {}, `${LABEL_OF_KIND[KINDS[kind]]} of micro-batch ${microbatch}`),
      make('div', {}, `device ${found.device}${hasChunks ? `, chunk ${chunk}` : ''}; takes ${seconds(end - begin)}, from ${seconds(begin)}`));
    placeTip(this.tip, point, this.layout.width, this.layout.height);
  }
}
