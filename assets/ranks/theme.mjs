/** Colours of the page as the canvases need them, and news of a change of theme. */

const NAMES = {
  page: '--page', panel: '--panel', raised: '--raised', line: '--line', text: '--text', quiet: '--quiet',
  faint: '--faint', link: '--link', fault: '--fault', tp: '--tp', pp: '--pp', dp: '--dp',
  noise: '--ramp-noise', more: '--ramp-more', less: '--ramp-less',
};

/** @returns {Object<string, string>} hex colours by name, and `font` */
export function readTheme(element = document.documentElement) {
  const style = getComputedStyle(element);
  const theme = Object.fromEntries(
    Object.entries(NAMES).map(([name, variable]) => [name, style.getPropertyValue(variable).trim()]));
  theme.font = getComputedStyle(document.body).fontFamily;
  return theme;
}

/** Call `listener` when the theme changes; returns what ends it. */
export function onTheme(listener) {
  const observer = new MutationObserver(listener);
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
  return () => observer.disconnect();
}

/** 'step 4' or 'steps 4 to 9'. */
export const stepsText = ([first, last]) => (first === last ? `step ${first}` : `steps ${first} to ${last}`);

/** Make an element; `content`: text or children. */
export function make(tag, attributes = {}, content = []) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...[content].flat());
  return element;
}

let software = null;

/** Whether WebGL is drawn by the CPU here: then 2D canvases must not ask the GPU either. */
export function isSoftwareGl() {
  software ??= findSoftwareGl();
  return software;
}

function findSoftwareGl() {
  const gl = document.createElement('canvas').getContext('webgl2');
  if (!gl) return true;
  const info = gl.getExtension('WEBGL_debug_renderer_info');
  const name = info ? gl.getParameter(info.UNMASKED_RENDERER_WEBGL) : '';
  gl.getExtension('WEBGL_lose_context')?.loseContext();
  return /swiftshader|llvmpipe|software/i.test(name);
}

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
