/** The page's colours for canvases, and a callback when the theme changes. */

const NAMES = {
  page: '--page', panel: '--panel', raised: '--raised', line: '--line', text: '--text', quiet: '--quiet',
  faint: '--faint', link: '--link', fault: '--fault', tp: '--tp', pp: '--pp', dp: '--dp', ep: '--ep',
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

/** Call `listener` when the theme changes. @returns {() => void} stops it */
export function onTheme(listener) {
  const observer = new MutationObserver(listener);
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
  return () => observer.disconnect();
}
