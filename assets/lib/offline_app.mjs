/** What views know as `app` (lib/app.mjs), in a file that has no server and no address of its own. */
import { emptyView } from './view_state.mjs';

export class OfflineApp extends EventTarget {
  /** @param {{rank: ?number, ranks: number[], steps: ?[number, number]}} data */
  constructor({ rank, ranks, steps }) {
    super();
    this.base = '';
    this.view = { ...emptyView(), run: 'shared', page: 'timeline', rank, ranks, steps };
  }

  /** Change the view state; there is no address to write it to. */
  set(patch) {
    this.view = { ...this.view, ...patch };
    this.dispatchEvent(new CustomEvent('view', { detail: this.view }));
  }

  /** There is one page only: what it shows is taken over. */
  open(patch) {
    this.set({ ...patch, page: this.view.page });
  }

  async json() {
    throw new Error('This file has no more than what it shows; open the live page for the rest.');
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
