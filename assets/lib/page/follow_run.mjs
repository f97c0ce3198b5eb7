/** Keeps a secondary part of a page up to date with the run and the attempt that the page shows. */
import { makeFetcher } from '../fetcher.mjs';

const AFTER_MS = 300;  // the pictures of the page come first

/**
 * Loads shortly after the page has opened, at once for another attempt, and at most once per `newsMs` while the
 * run has new data.
 * @template T
 * @param {Object} app
 * @param {{load: (signal: AbortSignal) => Promise<T>, show: (found: T) => void, showError: (message: string) => void,
 *   newsMs: number}} part `show` gets what `load` found, `showError` why it found nothing
 * @returns {{destroy: () => void}}
 */
export function followRun(app, { load, show, showError, newsMs }) {
  const stop = new AbortController();
  let { attempt } = app.view;
  const fetcher = makeFetcher(async (signal) => {
    try {
      const found = await load(signal);
      if (!signal.aborted) show(found);
    } catch (error) {
      if (error.name !== 'AbortError' && !signal.aborted) showError(error.message);
    }
  }, newsMs);
  const timer = setTimeout(fetcher.now, AFTER_MS);
  app.addEventListener('run', fetcher.news, { signal: stop.signal });
  app.addEventListener('view', () => {
    if (app.view.attempt === attempt) return;
    ({ attempt } = app.view);
    fetcher.now();
  }, { signal: stop.signal });
  return {
    destroy() {
      clearTimeout(timer);
      stop.abort();
      fetcher.stop();
    },
  };
}
