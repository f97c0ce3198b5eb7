/** Limits how often a view of a live run sends requests, without losing the last one. */

const QUIET_MS = 80;

/**
 * Calls `fetch(signal)` at most once per `ms`. `news()` waits for the request under way: if each event
 * aborted it, an answer that takes longer than the time between events would never arrive. `now()`
 * aborts the request under way. `soon()` is `now()` once QUIET_MS have passed without another `soon()`.
 */
export function makeFetcher(fetch, ms) {
  let request = null;
  let isStale = false;
  let timer = 0;
  const now = async () => {
    request?.abort();
    const current = request = new AbortController();
    isStale = false;
    await fetch(current.signal);
    if (request !== current) return;
    request = null;
    if (isStale) news();
  };
  const news = throttled(() => {
    if (request) isStale = true;
    else now();
  }, ms);
  return {
    now,
    news,
    soon() {
      clearTimeout(timer);
      timer = setTimeout(now, QUIET_MS);
    },
    stop() {
      clearTimeout(timer);
      news.cancel();
      request?.abort();
    },
  };
}

/** Calls `run` at most once per `ms`; the last call is never lost. */
export function throttled(run, ms) {
  let timer = 0;
  let last = -Infinity;
  const call = () => {
    clearTimeout(timer);
    const wait = last + ms - performance.now();
    if (wait <= 0) {
      last = performance.now();
      run();
    } else {
      timer = setTimeout(call, wait);
    }
  };
  call.cancel = () => clearTimeout(timer);
  return call;
}
