/** The `app` of views (lib/app.mjs) in a shared file, which has no server and no URL of its own. */
import { unpackArrays } from './arrays.mjs';
import { emptyView } from './view_state.mjs';

export class OfflineApp extends EventTarget {
  /**
   * @param {{page: string, rank: ?number, expert: ?number[], ranks: number[], steps: ?[number, number], culprits: number[],
   *   pipeline: Object<string, string>, victims: number[], fault_steps: ?[number, ?number], answers: Object<string, *>}} data fault_steps: of
   *   the finding, the last one null while it goes on; answers: by api(), packed arrays as {base64}
   */
  constructor({ page = 'timeline', pipeline = {}, rank, expert = null, ranks, steps, culprits = [], victims = [], fault_steps: fault = null, answers = {} }) {
    super();
    this.base = '';
    this.answers = answers;
    this.lanes = ranks;
    this.roles = { culprits, victims, steps: fault && [fault[0], fault[1] ?? Infinity] };
    this.view = { ...emptyView(), run: 'shared', page, rank, expert, ranks, steps, pipeline };
  }

  /** Change the view state; there is no URL to write it to. */
  set(patch) {
    this.view = { ...this.view, ...patch };
    this.dispatchEvent(new CustomEvent('view', { detail: this.view }));
  }

  /**
   * A shared file has one page, with a timeline of some ranks: it shows the rank there, or answers why not.
   * @param {Partial<import('./view_state.mjs').View>} patch
   */
  open({ page, rank = null }) {
    const isThere = page === 'timeline' && this.lanes.includes(rank);
    if (isThere) this.set({ rank });
    this.dispatchEvent(new CustomEvent('open', { detail: isThere ? '' : 'This file does not show that; the live page does.' }));
  }

  /** Key of an answer: a file has one attempt and its own steps. */
  api(name, { attempt, steps, ...params } = {}) {
    const given = Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== '');
    return given.length ? `${name}?${given.map(([key, value]) => `${key}=${value}`).join('&')}` : name;
  }

  /** A file has only what was computed when it was made. */
  get computes() {
    return false;
  }

  /** There is no strip of steps to mark. */
  showScope() {}

  has(key) {
    return key in this.answers;
  }

  async json(key) {
    if (!this.has(key)) throw new Error('This file contains only what it shows; open the live page for the rest.');
    const answer = this.answers[key];
    if (answer?.refused) throw new Error(answer.refused);  // as the server did when the file was made
    return answer;
  }

  async arrays(key) {
    const { base64 } = await this.json(key);
    return unpackArrays(Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0)).buffer);
  }

  link() {
    return location.href;
  }
}
