/** The what-if page: loads the numbers, passes them to its parts, follows selected steps and new data. */
import { make } from '../lib/dom.mjs';
import { makeFetcher, throttled } from '../lib/fetcher.mjs';
import { asSentence, sentence } from '../lib/sentences.mjs';
import { showAdvice } from './advice.mjs';
import { whyShown } from './messages.mjs';
import { ReplayView } from './replay.mjs';
import { Schedules } from './schedules.mjs';
import { showBars, showCauses, showCosts, showHead } from './summary.mjs';
import { WorkerMap } from './worker_map.mjs';

const NEWS_MS = 5000;
const FOLLOW_MS = 300;

export function mount(element, app) {
  const view = new WhatIfView(element, app);
  return { destroy: () => view.destroy() };
}

/** FIRST..LAST in the form of the server's parameter; null: all steps. */
const stepsParameter = ({ steps }) => steps && `${Math.max(0, steps[0])}..${Math.max(0, steps[1])}`;

class WhatIfView {
  constructor(element, app) {
    Object.assign(this, { element, app, result: null });
    this.status = sentence('status', 'Replaying the steps.');
    element.replaceChildren(this.status);
    this.fetcher = makeFetcher((signal) => this.#fetch(signal), NEWS_MS);
    this.follow = throttled(() => this.fetcher.now(), FOLLOW_MS);
    this.listeners = {
      view: () => this.#followView(), run: () => this.fetcher.news(),
      link: ({ detail }) => Object.assign(detail.patch, this.replay?.state()),
    };
    for (const [name, listener] of Object.entries(this.listeners)) app.addEventListener(name, listener);
    this.keys = this.#viewKeys();
    this.fetcher.now();
  }

  destroy() {
    this.fetcher.stop();
    this.follow.cancel();
    this.replayRequest?.abort();
    this.#clear();
    for (const [name, listener] of Object.entries(this.listeners)) this.app.removeEventListener(name, listener);
  }

  #viewKeys() {
    const { run, attempt, steps, rank, replay, pipeline } = this.app.view;
    return [[run, attempt, steps], [rank, replay], pipeline].map((key) => JSON.stringify(key));
  }

  #followView() {
    if (this.app.view.page !== 'what-if') return;  // this view is about to be destroyed
    const before = this.keys;
    this.keys = this.#viewKeys();
    const [isOther, isOtherReplay, isOtherPipeline] = this.keys.map((key, i) => key !== before[i]);
    if (isOther) return this.follow();
    if (isOtherReplay && this.result) this.#fetchReplay();
    if (isOtherPipeline && this.result) this.schedules?.load();
    return undefined;
  }

  #params() {
    return { attempt: this.app.view.attempt, steps: stepsParameter(this.app.view) };
  }

  async #fetch(signal) {
    const params = this.#params();
    try {
      const result = await this.app.json(this.app.api('what-if', params), signal);
      if (result.is_outdated) this.fetcher.news();
      if (result.reason) return this.#showMessage(`No what-if analysis: ${result.reason}.`);
      this.#show(result);
      await Promise.all([this.#fetchReplay(), this.#fetchCosts(signal)]);
      const causes = await this.app.json(this.app.api('what-if/causes', params), signal);
      if (!signal.aborted && !causes.reason && this.parts) showCauses(this.parts.causes, this.app, causes);
      if (!signal.aborted) await this.schedules?.load();
      await this.#fetchAdvice(params, signal);
    } catch (error) {
      if (error.name !== 'AbortError') this.#showMessage(`What-if cannot be shown. ${asSentence(error.message)}`, true);
    }
    return undefined;
  }

  async #fetchCosts(signal) {
    const costs = await this.app.json(this.app.api('what-if/costs', { attempt: this.app.view.attempt }), signal);
    if (!signal.aborted && this.parts) showCosts(this.parts.costs, this.app, costs);
  }

  /** Its failure hides nothing else. */
  async #fetchAdvice(params, signal) {
    let advice;
    try {
      advice = await this.app.json(this.app.api('what-if/advice', params), signal);
    } catch (error) {
      if (error.name === 'AbortError') return;
      advice = { reason: error.message };
    }
    if (!signal.aborted && this.parts) showAdvice(this.parts.advice, this.app, advice);
  }

  async #fetchReplay() {
    this.replayRequest?.abort();
    const { signal } = this.replayRequest = new AbortController();
    const { rank, replay: step } = this.app.view;
    const key = this.app.api('what-if/replay', this.app.computes ? { ...this.#params(), rank, step } : {});
    if (!this.app.has(key)) return this.replay?.showNothing();
    try {
      const ops = await this.app.arrays(key, signal);
      if (!signal.aborted && !ops.meta.reason) this.replay?.show(this.result, ops);
    } catch (error) {
      if (error.name !== 'AbortError') this.#showMessage(`What-if cannot be shown. ${asSentence(error.message)}`, true);
    }
    return undefined;
  }

  /** Show a sentence instead of everything. */
  #showMessage(text, isError = false) {
    this.#clear();
    this.status.textContent = text;
    this.status.classList.toggle('failed', isError);
    this.element.replaceChildren(this.status);
  }

  #clear() {
    this.map?.destroy();
    this.replay?.destroy();
    this.schedules?.destroy();
    Object.assign(this, { map: null, replay: null, schedules: null, parts: null, result: null });
  }

  #build() {
    const names = ['costs', 'head', 'causes', 'map', 'replay', 'advice', 'schedules', 'types', 'stages', 'dps'];
    this.parts = Object.fromEntries(names.map((name) => [name, make('section', { class: `panel whatif-${name}` })]));
    this.map = new WorkerMap(this.parts.map, this.app);
    this.replay = new ReplayView(this.parts.replay, this.app);
    this.schedules = new Schedules(this.parts.schedules, this.app, (path, changes, signal) => {
      const key = this.app.api(`what-if/${path}`, { ...this.#params(), ...changes });
      return this.app.has(key) ? this.app.json(key, signal) : { reason: 'this file has no room for it; the live page draws it' };
    });
    showCosts(this.parts.costs, this.app, null);
    showCauses(this.parts.causes, this.app, null);
    showAdvice(this.parts.advice, this.app, null);
    const { costs, head, causes, map, replay, advice, schedules, ...tables } = this.parts;
    this.element.replaceChildren(costs, head, causes, map, replay, advice, schedules, make('div', { class: 'whatif-tables' }, Object.values(tables)));
  }

  #show(result) {
    if (!this.parts) this.#build();
    this.result = result;
    const { parts, app } = this;
    const { steps } = result;
    app.showScope(steps.length ? { steps: [steps[0], steps[steps.length - 1]], why: app.view.steps ? 'chosen' : whyShown(steps) } : null);
    showHead(parts.head, app, result);
    showBars(parts.types, app, {
      title: 'By type of operation', symbol: 'S_t', hint: 'only this type as measured, all else ideal', first: 'operation', entries: Object.entries(result.S_t),
    });
    this.map.show(result);
    const hasStages = result.S_stage.length > 1;
    parts.stages.hidden = !hasStages;
    if (hasStages) {
      showBars(parts.stages, app, {
        title: 'By stage', symbol: 'S_stage', hint: 'only this stage as measured', first: 'stage', entries: result.S_stage.map((value, stage) => [`stage ${stage}`, value]),
      });
    }
    showBars(parts.dps, app, {
      title: 'By dp rank', symbol: 'S_dp', hint: 'only this dp rank as measured', first: 'dp rank', entries: result.S_dp.map((value, dp) => [`dp rank ${dp}`, value, result.rank[0][dp]]),
    });
  }
}
