/** What frames are compared with: a step of this run, of another attempt of it, or of another run. */
import { make } from '../../lib/dom.mjs';
import { setModel } from '../shared/model_state.mjs';
import { fillOptions } from '../shared/select_options.mjs';

const MOST_RUNS = 200;

/**
 * The run that the address compares with, null: this one.
 * @param {Object<string, string>} model of the address
 * @returns {?{run: string, attempt: ?number}}
 */
export function otherOf(model, run) {
  const { minus_run: other, minus_attempt: attempt } = model;
  const number = /^\d{1,6}$/.test(attempt ?? '') ? Number(attempt) : null;
  return (other && other !== run) || number !== null ? { run: other || run, attempt: number } : null;
}

/**
 * The step that is taken away; null: none. Of another run it is the same step where none is named.
 * @param {?Object} other of otherOf @param {number} step that is shown @param {?string} minus of the address
 * @param {number[]} steps kept of this kind, in the other run where there is one
 * @returns {?{run: ?string, attempt: ?number, step: number, where: string}}
 */
export function lessOf(other, step, minus, steps, run) {
  const wanted = minus === undefined ? null : Number(minus);
  const own = steps.includes(wanted) ? wanted : null;
  if (!other) return own === null ? null : { step: own, where: `step ${own}` };
  const at = own ?? step;
  const names = [other.run === run ? null : `run ${other.run}`, other.attempt === null ? null : `attempt ${other.attempt}`].filter(Boolean);
  return { ...other, step: at, where: `step ${at} of ${names.join(', ')}` };
}

export class Comparison {
  constructor(app) {
    Object.assign(this, { app, runs: [] });
    this.steps = make('select', { 'aria-label': 'less step' });
    this.steps.addEventListener('change', () => setModel(app, { minus: this.steps.value }, { push: true }));
    this.others = make('select', { 'aria-label': 'of run' });
    this.others.addEventListener('change', () => {
      const { run = null, attempt = null } = this.others.value ? JSON.parse(this.others.value) : {};
      setModel(app, { minus: null, minus_run: run, minus_attempt: attempt }, { push: true });
    });
    this.elements = [make('label', {}, ['less step ', this.steps]), make('label', {}, ['of ', this.others])];
    this.#listRuns();
  }

  /** Without them the choice has fewer entries. */
  async #listRuns() {
    const { runs } = await this.app.json(`${this.app.base}/api/runs`).catch(() => ({ runs: [] }));
    this.runs = runs.map(({ name }) => name).filter((name) => name !== this.app.view.run).slice(0, MOST_RUNS);
    if (this.told) this.#options();
  }

  /**
   * Offer what there is and say what is chosen.
   * @param {{what: string, step: ?number, isLive: boolean, kind: {steps: number[]}}} chosen @param {number[]} attempts of this run
   */
  async choose(chosen, attempts, signal) {
    const { run, model } = this.app.view;
    const other = chosen.isLive ? null : otherOf(model, run);
    const kind = other ? await this.#kindOf(other, chosen.what, signal) : chosen.kind;
    if (signal.aborted) return null;
    this.told = { other, attempts, steps: other ? kind.steps : kind.steps.filter((one) => one !== chosen.step) };
    this.#options();
    return chosen.isLive ? null : lessOf(other, chosen.step, model.minus, kind.steps, run);
  }

  /** Whether what is compared with has kept this kind in this step. @param {{steps: number[], what: string}[]} own kinds of this run and attempt */
  has(what, step, own) {
    const kinds = this.told.other ? this.whats : own;
    return kinds.find((one) => one.what === what)?.steps.includes(step) ?? false;
  }

  async #kindOf({ run, attempt }, what, signal) {
    const key = JSON.stringify([run, attempt]);
    if (this.key !== key) {
      const found = await this.app.json(this.app.api('model/frames', { attempt }, run), signal).catch((error) => {
        if (error.name === 'AbortError') throw error;
        return { whats: [] };  // each frame says why
      });
      Object.assign(this, { key, whats: found.whats });
    }
    return this.whats.find((one) => one.what === what) ?? { steps: [] };
  }

  #options() {
    const { run, attempt: shown, model } = this.app.view;
    const { other, attempts, steps } = this.told;
    const current = shown ?? attempts.at(-1);
    const runs = [...attempts.filter((one) => one !== current).map((attempt) => [JSON.stringify({ attempt }), `attempt ${attempt}`]),
      ...this.runs.map((name) => [JSON.stringify({ run: name }), name])];
    const value = other ? JSON.stringify({ ...(other.run === run ? {} : { run: other.run }), ...(other.attempt === null ? {} : { attempt: other.attempt }) }) : '';
    if (value && !runs.some(([key]) => key === value)) runs.push([value, lessOf(other, 0, undefined, [], run).where.slice('step 0 of '.length)]);
    fillOptions(this.others, [['', 'this run'], ...runs], value);
    fillOptions(this.steps, [['', other ? 'the same' : 'none'], ...steps.map((one) => [String(one), String(one)])], steps.includes(Number(model.minus)) ? model.minus : '');
  }
}
