/** The choice of what frames are compared with: a step of this run, of another attempt, or of another run. */
import { make } from '../../lib/dom.mjs';
import { setModel } from '../shared/model_state.mjs';
import { fillOptions } from '../shared/select_options.mjs';

const MOST_RUNS = 200;

/**
 * The run or attempt that the view state compares with, null for the current one.
 * @param {Object<string, string>} model of the view state
 * @returns {?{run: string, attempt: ?number}}
 */
export function otherOf(model, run) {
  const { minus_run: other, minus_attempt: attempt } = model;
  const number = /^\d{1,6}$/.test(attempt ?? '') ? Number(attempt) : null;
  return (other && other !== run) || number !== null ? { run: other || run, attempt: number } : null;
}

/**
 * The step to subtract, null for none. In another run it is the same step unless the view state names one.
 * @param {?Object} other of otherOf @param {number} step that is shown @param {?string} minus of the view state
 * @param {number[]} steps recorded of this kind, in the other run if there is one
 * @returns {?{run: ?string, attempt: ?number, step: number, where: string}}
 */
export function subtractedStep(other, step, minus, steps, run) {
  const wanted = minus === undefined ? null : Number(minus);
  const own = steps.includes(wanted) ? wanted : null;
  if (!other) return own === null ? null : { step: own, where: `step ${own}` };
  const subtracted = own ?? step;
  const names = [other.run === run ? null : `run ${other.run}`, other.attempt === null ? null : `attempt ${other.attempt}`].filter(Boolean);
  return { ...other, step: subtracted, where: `step ${subtracted} of ${names.join(', ')}` };
}

export class Comparison {
  constructor(app) {
    Object.assign(this, { app, runs: [] });
    this.steps = make('select', { 'aria-label': 'compare with step' });
    this.steps.addEventListener('change', () => setModel(app, { minus: this.steps.value }, { push: true }));
    this.others = make('select', { 'aria-label': 'compare with run' });
    this.others.addEventListener('change', () => {
      const { run = null, attempt = null } = this.others.value ? JSON.parse(this.others.value) : {};
      setModel(app, { minus: null, minus_run: run, minus_attempt: attempt }, { push: true });
    });
    this.elements = [make('label', {}, ['Compare with: step ', this.steps]), make('label', {}, ['run ', this.others])];
    this.#listRuns();
  }

  /** Load the runs to choose from; without an answer there are fewer. */
  async #listRuns() {
    const { runs } = await this.app.json(`${this.app.base}/api/runs`).catch(() => ({ runs: [] }));
    this.runs = runs.map(({ name }) => name).filter((name) => name !== this.app.view.run).slice(0, MOST_RUNS);
    if (this.offered) this.#options();
  }

  /**
   * Show the choices for what is on screen. @returns the chosen step to subtract, null for none
   * @param {{what: string, step: ?number, isLive: boolean, kind: {steps: number[]}}} chosen @param {number[]} attempts of this run
   */
  async choose(chosen, attempts, signal) {
    const { run, model } = this.app.view;
    const other = chosen.isLive ? null : otherOf(model, run);
    const kind = other ? await this.#kindOf(other, chosen.what, signal) : chosen.kind;
    if (signal.aborted) return null;
    this.offered = { other, attempts, steps: other ? kind.steps : kind.steps.filter((step) => step !== chosen.step) };
    this.#options();
    return chosen.isLive ? null : subtractedStep(other, chosen.step, model.minus, kind.steps, run);
  }

  /** Whether the run compared with has recorded this kind in this step. @param {{steps: number[], what: string}[]} own kinds of this run and attempt */
  has(what, step, own) {
    const kinds = this.offered.other ? this.whats : own;
    return kinds.find((kind) => kind.what === what)?.steps.includes(step) ?? false;
  }

  async #kindOf({ run, attempt }, what, signal) {
    const key = JSON.stringify([run, attempt]);
    if (this.key !== key) {
      const recorded = await this.app.json(this.app.api('model/frames', { attempt }, run), signal).catch((error) => {
        if (error.name === 'AbortError') throw error;
        return { whats: [] };  // each frame shows why
      });
      Object.assign(this, { key, whats: recorded.whats });
    }
    return this.whats.find((kind) => kind.what === what) ?? { steps: [] };
  }

  #options() {
    const { run, attempt: shown, model } = this.app.view;
    const { other, attempts, steps } = this.offered;
    const current = shown ?? attempts.at(-1);
    const runs = [...attempts.filter((attempt) => attempt !== current).map((attempt) => [JSON.stringify({ attempt }), `attempt ${attempt}`]),
      ...this.runs.map((name) => [JSON.stringify({ run: name }), name])];
    const value = other ? JSON.stringify({ ...(other.run === run ? {} : { run: other.run }), ...(other.attempt === null ? {} : { attempt: other.attempt }) }) : '';
    if (value && !runs.some(([key]) => key === value)) runs.push([value, subtractedStep(other, 0, undefined, [], run).where.slice('step 0 of '.length)]);
    fillOptions(this.others, [['', 'this run'], ...runs], value);
    fillOptions(this.steps, [['', other ? 'the same' : 'none'], ...steps.map((step) => [String(step), String(step)])], steps.includes(Number(model.minus)) ? model.minus : '');
  }
}
