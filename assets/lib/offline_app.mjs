/** The `app` of views (lib/app.mjs) in a shared file, which has no server and no URL of its own. */
import { emptyView } from './view_state.mjs';

export class OfflineApp extends EventTarget {
  /**
   * @param {{rank: ?number, ranks: number[], steps: ?[number, number], culprits: number[],
   *   victims: number[], fault_steps: ?[number, ?number]}} data fault_steps: of the finding, the last one
   *   null while it goes on
   */
  constructor({ rank, ranks, steps, culprits = [], victims = [], fault_steps: fault = null }) {
    super();
    this.base = '';
    this.roles = { culprits, victims, steps: fault && [fault[0], fault[1] ?? Infinity] };
    this.view = { ...emptyView(), run: 'shared', page: 'timeline', rank, ranks, steps };
  }

  /** Change the view state; there is no URL to write it to. */
  set(patch) {
    this.view = { ...this.view, ...patch };
    this.dispatchEvent(new CustomEvent('view', { detail: this.view }));
  }

  /** A shared file has one page: apply the change to it. */
  open(patch) {
    this.set({ ...patch, page: this.view.page });
  }

  async json() {
    throw new Error('This file contains only what it shows; open the live page for the rest.');
  }

  async arrays() {
    return this.json();
  }

  api() {
    return '';
  }

  link() {
    return location.href;
  }
}
