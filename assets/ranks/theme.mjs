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
