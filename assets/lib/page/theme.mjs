/** Dark or light: follows the system until the user chooses, then remembers the choice. */

const KEY = 'theme';

/** @param {'dark'|'light'} theme @returns {'dark'|'light'} the other one */
export function otherTheme(theme) {
  return theme === 'light' ? 'dark' : 'light';
}

/** Switch and remember the theme; views observe data-theme. */
export function toggleTheme(root = document.documentElement, storage = localStorage) {
  root.dataset.theme = otherTheme(root.dataset.theme);
  try {
    storage.setItem(KEY, root.dataset.theme);
  } catch { /* no storage in this browser: for this page only */ }
  return root.dataset.theme;
}

/** Follow the system until the user chooses. */
export function followSystem(root = document.documentElement, storage = localStorage) {
  const light = matchMedia('(prefers-color-scheme: light)');
  light.addEventListener('change', () => {
    if (!storage.getItem(KEY)) root.dataset.theme = light.matches ? 'light' : 'dark';
  });
}
