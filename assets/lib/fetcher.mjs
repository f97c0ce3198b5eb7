/** Requests of a view of a live run: not too often, and none lost. */

/**
 * `fetch(signal)` for news of a live run: at most once per `ms`, and never abandoned for newer news,
 * else answers that take longer than news come would never be seen. `now()` abandons what is under way.
 */
export function makeFetcher(fetch, ms) {
  let request = null;
  let isStale = false;
  const now = async () => {
    request?.abort();
    const mine = request = new AbortController();
    isStale = false;
    await fetch(mine.signal);
    if (request !== mine) return;
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
    stop() {
      news.cancel();
      request?.abort();
    },
  };
}

/** `run` at most once per `ms`, the last call never lost. */
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
