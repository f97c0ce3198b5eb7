/** The what-if page: asks for the numbers, hands them to its parts, follows steps and news. */
import { make } from '../lib/dom.mjs';
import { makeFetcher, throttled } from '../lib/fetcher.mjs';
import { ReplayView } from './replay.mjs';
import { showBars, showCauses, showHead } from './summary.mjs';
import { WorkerMap } from './worker_map.mjs';

const NEWS_MS = 5000;
const FOLLOW_MS = 300;

export function mount(element, app) {
  const view = new WhatIfView(element, app);
  return { destroy: () => view.destroy() };
}

/** FIRST..LAST as the server takes it; null: all steps. */
const stepsAsked = ({ steps }) => steps && `${Math.max(0, steps[0])}..${Math.max(0, steps[1])}`;

class WhatIfView {
  constructor(element, app) {
    Object.assign(this, { element, app, told: null });
    this.status = make('p', { class: 'panel sentence', role: 'status' }, 'Replaying the steps.');
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
    this.#takeDown();
    for (const [name, listener] of Object.entries(this.listeners)) this.app.removeEventListener(name, listener);
  }

  #viewKeys() {
    const { run, attempt, steps, rank, replay } = this.app.view;
    return [JSON.stringify([run, attempt, steps]), JSON.stringify([rank, replay])];
  }

  #followView() {
    if (this.app.view.page !== 'what-if') return;  // about to be taken down
    const [numbers, replay] = this.#viewKeys();
    const [numbersBefore, replayBefore] = this.keys;
    this.keys = [numbers, replay];
    if (numbers !== numbersBefore) this.follow();
    else if (replay !== replayBefore && this.told) this.#fetchReplay();
  }

  #asked() {
    return { attempt: this.app.view.attempt, steps: stepsAsked(this.app.view) };
  }

  async #fetch(signal) {
    const asked = this.#asked();
    try {
      const told = await this.app.json(this.app.api('what-if', asked), signal);
      if (told.is_outdated) this.fetcher.news();
      if (told.reason) return this.#say(`No what-if analysis: ${told.reason}.`);
      this.#show(told);
      await this.#fetchReplay();
      const causes = await this.app.json(this.app.api('what-if/causes', asked), signal);
      if (!signal.aborted && !causes.reason && this.parts) showCauses(this.parts.causes, this.app, causes);
    } catch (error) {
      if (error.name !== 'AbortError') this.#say(error.message, true);
    }
    return undefined;
  }

  async #fetchReplay() {
    this.replayRequest?.abort();
    const { signal } = this.replayRequest = new AbortController();
    const { rank, replay: step } = this.app.view;
    try {
      const ops = await this.app.arrays(this.app.api('what-if/replay', { ...this.#asked(), rank, step }), signal);
      if (!signal.aborted && !ops.meta.reason) this.replay?.show(this.told, ops);
    } catch (error) {
      if (error.name !== 'AbortError') this.#say(error.message, true);
    }
  }

  /** A sentence in place of everything. */
  #say(text, isError = false) {
    this.#takeDown();
    this.status.textContent = text;
    this.status.classList.toggle('failed', isError);
    this.element.replaceChildren(this.status);
  }

  #takeDown() {
    this.map?.destroy();
    this.replay?.destroy();
    Object.assign(this, { map: null, replay: null, parts: null, told: null });
  }

  #build() {
    const names = ['head', 'causes', 'map', 'replay', 'types', 'stages', 'dps'];
    this.parts = Object.fromEntries(names.map((name) => [name, make('section', { class: `panel whatif-${name}` })]));
    this.map = new WorkerMap(this.parts.map, this.app);
    this.replay = new ReplayView(this.parts.replay, this.app);
    showCauses(this.parts.causes, this.app, null);
    const { head, causes, map, replay, ...tables } = this.parts;
    this.element.replaceChildren(head, causes, map, replay, make('div', { class: 'whatif-tables' }, Object.values(tables)));
  }

  #show(told) {
    if (!this.parts) this.#build();
    this.told = told;
    const { parts, app } = this;
    showHead(parts.head, app, told);
    showBars(parts.types, app, {
      title: 'By type of operation', hint: 'S_t: only this type real, all else ideal', first: 'operation', entries: Object.entries(told.S_t),
    });
    this.map.show(told);
    const hasStages = told.S_stage.length > 1;
    parts.stages.hidden = !hasStages;
    if (hasStages) {
      showBars(parts.stages, app, {
        title: 'By stage', hint: 'S_stage: only this stage real', first: 'stage', entries: told.S_stage.map((value, stage) => [`stage ${stage}`, value]),
      });
    }
    showBars(parts.dps, app, {
      title: 'By dp rank', hint: 'S_dp: only this dp rank real', first: 'dp rank', entries: told.S_dp.map((value, dp) => [`dp rank ${dp}`, value, told.rank[0][dp]]),
    });
  }
}
