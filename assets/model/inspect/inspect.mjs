/** Inspect: thumbnails of all heads and layers in one step, one frame in full, others pinned next to it. */
import { make } from '../../lib/dom.mjs';
import { makeFetcher } from '../../lib/fetcher.mjs';
import { sentence } from '../../lib/sentences.mjs';
import { HiddenStates } from '../hidden_states/hidden_states.mjs';
import { NextTokens } from '../next_tokens/next_tokens.mjs';
import { namesOf } from '../next_tokens/tokens.mjs';
import { mergedVocabulary, whyIncomplete } from '../next_tokens/vocabulary.mjs';
import { noFrames } from '../shared/empty_state.mjs';
import { frameKey, partsOfKey } from '../shared/frame.mjs';
import { FrameSocket } from '../shared/frame_socket.mjs';
import { merged, setModel } from '../shared/model_state.mjs';
import { fillOptions } from '../shared/select_options.mjs';
import { Comparison } from './comparison.mjs';
import { FrameSource } from './frame_source.mjs';
import { FullFrames } from './full_frames.mjs';
import { TileGrid } from './tile_grid.mjs';
import { WatchControls } from './watch_controls.mjs';

const NEWS_MS = 2000;
const PLAY_MS = 700;
const MOST_PINS = 6;

const PART = 'vocabulary_part';
/** Kinds that are shown together with others, not chosen themselves. */
const ACCOMPANYING = ['tokens', 'token_loss', PART];
const PARAMETERS = ['gradients', 'weights'];

export class InspectView {
  constructor(element, app) {
    Object.assign(this, { element, app, source: new FrameSource(app) });
    this.#build();
    this.fetcher = makeFetcher((signal) => this.#fetch(signal), NEWS_MS);
    this.listeners = {
      view: () => this.#follow(), run: () => this.fetcher.news(),
      link: ({ detail }) => { if (this.shown) detail.patch.model = merged(app.view.model, this.shown); },
    };
    for (const [name, listener] of Object.entries(this.listeners)) app.addEventListener(name, listener);
    this.key = this.#viewKey();
    this.fetcher.now();
  }

  destroy() {
    this.fetcher.stop();
    clearInterval(this.playing);
    cancelAnimationFrame(this.frame);
    this.source.socket?.close();
    this.grid.destroy();
    this.states.destroy();
    this.next.destroy();
    this.full.destroy();
    for (const [name, listener] of Object.entries(this.listeners)) this.app.removeEventListener(name, listener);
  }

  #viewKey() {
    const { run, attempt, model: { what, at, step, minus, pins, sample, axes, unit, minus_run: otherRun, minus_attempt: otherAttempt } } = this.app.view;
    return JSON.stringify([run, attempt, what, at, step, minus, otherRun, otherAttempt, pins, sample, axes, unit]);
  }

  #follow() {
    if (this.app.view.page !== 'model') return;
    const key = this.#viewKey();
    if (key === this.key) return;
    this.key = key;
    this.fetcher.now();
  }

  #build() {
    const parts = this.parts = { status: sentence('status', 'Looking for frames.') };
    parts.controls = make('section', { class: 'panel model-controls', hidden: '' });
    this.controls = new WatchControls(parts.controls, this.app);
    parts.about = make('span', { class: 'quiet' });
    parts.tiles = make('section', { class: 'panel model-tiles' }, [make('header', {}, [make('h2', {}, 'Layers × heads'), parts.about])]);
    this.grid = new TileGrid(parts.tiles, { chosen: (key, event) => (event.shiftKey ? this.#pin(key) : setModel(this.app, { at: key }, { push: true })) });
    this.full = new FullFrames(this.source, (key) => this.#pin(key));
    this.states = new HiddenStates(this.app, (layer) => this.#openLayer(layer));
    this.next = new NextTokens(this.app);
    parts.seen = make('div', { class: 'model-inspect', hidden: '' }, [this.#bar(), make('div', { class: 'model-two' }, [parts.tiles, this.full.element]), this.next.element, this.states.element]);
    parts.nothing = noFrames();
    parts.nothing.hidden = true;
    this.element.replaceChildren(parts.status, parts.controls, parts.nothing, parts.seen);
  }

  #bar() {
    const { parts, app } = this;
    this.comparison = new Comparison(app);
    const choice = (name, label) => {
      parts[name] = make('select', { 'aria-label': label });
      parts[name].addEventListener('change', () => setModel(app, { [name]: parts[name].value, ...(name === 'what' ? { at: null, pins: null, minus: null, step: null } : {}) }, { push: true }));
      return make('label', {}, [`${label} `, parts[name]]);
    };
    const button = (label, text, act) => {
      const made = make('button', { 'aria-label': label }, text);
      made.addEventListener('click', act);
      return made;
    };
    parts.slider = make('input', { type: 'range', min: '0', max: '0', 'aria-label': 'step' });
    parts.slider.addEventListener('input', () => this.#showStepAt(Number(parts.slider.value)));
    parts.step = make('output', {});
    parts.play = button('play', '▶', () => this.#play());
    return make('section', { class: 'panel model-bar' }, [
      choice('what', 'Tensor'), choice('sample', 'Sequence'),
      make('span', { class: 'model-steps' }, [
        button('previous step', '‹', () => this.#moveStep(-1)), parts.slider, button('next step', '›', () => this.#moveStep(1)), parts.play, parts.step,
        button('newest step', 'newest', () => setModel(app, { step: null }))]),
      ...this.comparison.elements,
    ]);
  }

  /** Load the recorded frames; those of a live job come through the socket as well. */
  async #fetch(signal) {
    const { app } = this;
    const { attempt } = app.view;
    try {
      const recorded = await app.json(app.api('model/recorded', { attempt }), signal);
      const { whats, attempts } = await app.json(app.api('model/frames', { attempt }), signal);
      if (signal.aborted) return;
      this.source.kinds = whats;
      this.attempts = attempts;
      this.#listen(recorded.can_record);
      await this.#showStep(signal);
    } catch (error) {
      if (error.name !== 'AbortError') this.#fail(error.message);
    }
  }

  #listen(canRecord) {
    this.parts.controls.hidden = !canRecord;
    if (canRecord && !this.source.socket) this.source.socket = new FrameSocket(this.app, () => this.#redrawSoon());
    if (!canRecord) this.source.socket?.close();
  }

  /** Draw once for all frames that arrive before the next animation frame. */
  #redrawSoon() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      this.controls.show(this.source.socket.problem ? null : this.source.socket.state);
      const isHeld = this.app.live?.paused || this.app.view.model.step !== undefined;
      if (!isHeld && this.source.socket.frames.size) this.#showStep(new AbortController().signal);
    });
  }

  #fail(sentence) {
    const { status, nothing, seen } = this.parts;
    nothing.hidden = true;
    status.textContent = sentence;
    status.classList.add('failed');
    status.hidden = false;
    seen.hidden = true;
  }

  /** Kind, step and sequence of the view state if the run has them, else defaults. */
  #chosen() {
    const { model } = this.app.view;
    const live = this.source.socket?.whats() ?? [];
    const names = [...new Set([...this.source.kinds.map(({ what }) => what), ...live])].filter((name) => !ACCOMPANYING.includes(name));
    if (!names.length) return null;
    const what = names.includes(model.what) ? model.what : names[0];
    const kind = this.source.kinds.find((candidate) => candidate.what === what) ?? { steps: [], samples: [] };
    const isLive = model.step === undefined && live.includes(what);
    const wanted = Number(model.step ?? Infinity);
    const step = isLive ? null : kind.steps.findLast((recorded) => recorded <= wanted) ?? kind.steps[0];
    const sample = kind.samples.includes(Number(model.sample)) && model.sample !== undefined ? Number(model.sample) : kind.samples[0] ?? this.source.socket?.of(what)[0]?.sample ?? null;
    return { names, what, kind, isLive, step, sample };
  }

  async #showStep(signal) {
    const chosen = this.#chosen();
    const { status, nothing, seen } = this.parts;
    status.hidden = true;
    nothing.hidden = chosen !== null;
    seen.hidden = chosen === null;
    if (!chosen) return undefined;
    this.#options(chosen);
    const received = this.source.socket?.numReceived ?? 0;
    const [tiles, subtracted] = await Promise.all([this.source.tiles(chosen, signal), this.comparison.choose(chosen, this.attempts, signal)]);
    if (signal.aborted) return undefined;
    const key = this.#openedKey(tiles);
    Object.assign(this.grid, { chosen: key, pins: this.#pins() });
    this.grid.show(tiles);
    this.shown = { what: chosen.what, at: key, ...(chosen.isLive ? {} : { step: chosen.step }) };
    this.parts.about.textContent = `${chosen.what}, step ${tiles.step}${tiles.is_cut ? ', only the first ones' : ''}; click to open, shift + click to pin`;
    const tokens = PARAMETERS.includes(chosen.what) ? null : await this.source.sameStep('tokens', chosen, signal);
    Object.assign(chosen, { names: namesOf(tokens), namesStep: tokens?.step, subtracted: subtracted && await this.#withTokenNote(subtracted, tokens, chosen, signal) });
    if (signal.aborted) return undefined;
    await Promise.all([this.#showNext(chosen, signal), this.full.show([key, ...this.#pins()].filter(Boolean), this.#pins(), chosen, signal), this.#showStates(chosen, key, signal)]);
    // the canvases draw in the next animation frame, before this callback
    if (chosen.isLive) requestAnimationFrame(() => this.source.socket.drawn(received));
    return undefined;
  }

  /** The subtracted step, with a note if it has different tokens, where both are known. */
  async #withTokenNote(subtracted, tokens, { sample }, signal) {
    if (!tokens || !this.comparison.has('tokens', subtracted.step, this.source.kinds)) return subtracted;
    const { step, run, attempt = this.app.view.attempt } = subtracted;
    const theirs = await this.source.recorded({ what: 'tokens', layer: -1, sample, step, attempt }, signal, run).catch(() => null);
    const isOther = theirs && String(theirs.values) !== String(tokens.values);
    return isOther ? { ...subtracted, where: `${subtracted.where} (different tokens)` } : subtracted;
  }

  async #showNext(chosen, signal) {
    if (chosen.what !== 'logits' && chosen.what !== 'probabilities') {
      this.next.hide();
      return;
    }
    const both = await Promise.all(['probabilities', 'token_loss'].map((what) => this.source.sameStep(what, chosen, signal)));
    const parts = both[0] ? [] : await this.source.parts(PART, chosen, signal);
    if (signal.aborted) return;
    const why = parts.length ? whyIncomplete(parts) : '';
    if (parts.length && !why) {
      const { probabilities, losses } = mergedVocabulary(parts);
      this.next.show(probabilities, losses, chosen.names);
    } else this.next.show(...both, chosen.names, why);
  }

  /** Show hidden states of a recorded step; while frames arrive live, of the newest recorded step. */
  async #showStates({ what, step, sample, kind, names }, key, signal) {
    const recordedStep = step ?? kind.steps.at(-1);
    if (what !== 'residual' || recordedStep === undefined || !key) {
      this.states.hide();
      return;
    }
    const isLive = step === null;
    const shown = this.states.show({ step: recordedStep, sample, layer: partsOfKey(key).layer, names, isLive }, signal);
    if (!isLive) await shown;  // live frames do not wait for it
  }

  #openLayer(layer) {
    const frame = this.grid.tiles.frames.find((candidate) => candidate.layer === layer);
    if (frame) setModel(this.app, { at: frameKey(frame) });
  }

  #openedKey({ frames }) {
    const { at: key } = this.app.view.model;
    return frames.some((frame) => frameKey(frame) === key) ? key : frames.length ? frameKey(frames[0]) : null;
  }

  #pins() {
    return (this.app.view.model.pins ?? '').split('|').filter((key) => partsOfKey(key)).slice(0, MOST_PINS);
  }

  #pin(key) {
    const pins = this.#pins();
    const next = pins.includes(key) ? pins.filter((pinned) => pinned !== key) : [...pins, key];
    setModel(this.app, { pins: next.slice(-MOST_PINS).join('|') }, { push: true });
  }

  #options({ names, what, kind, isLive, step, sample }) {
    const { parts } = this;
    fillOptions(parts.what, names.map((name) => [name, name]), what);
    fillOptions(parts.sample, kind.samples.map((number) => [number, number < 0 ? 'mean of the batch' : String(number)]), sample);
    parts.slider.max = String(Math.max(0, kind.steps.length - 1));
    parts.slider.value = String(isLive ? kind.steps.length - 1 : kind.steps.indexOf(step));
    parts.step.textContent = isLive ? 'live' : `step ${step}`;
    this.steps = kind.steps;
  }

  #showStepAt(index) {
    const step = this.steps[Math.min(this.steps.length - 1, Math.max(0, index))];
    if (step !== undefined) setModel(this.app, { step });
  }

  #moveStep(by) {
    this.#showStepAt(Number(this.parts.slider.value) + by);
  }

  /** Play step after step; after the last starts again from the first. */
  #play() {
    const isPlaying = this.playing !== undefined && this.playing !== null;
    clearInterval(this.playing);
    this.playing = isPlaying ? null : setInterval(() => {
      const next = Number(this.parts.slider.value) + 1;
      this.#showStepAt(next < this.steps.length ? next : 0);
    }, PLAY_MS);
    this.parts.play.textContent = isPlaying ? '▶' : '❚❚';
    this.parts.play.setAttribute('aria-label', isPlaying ? 'play' : 'pause');
  }
}
