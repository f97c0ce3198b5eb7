/**
 * `app` for a view that shows something of its own while the address says nothing: what is empty in
 * the view state comes from `defaults`. A window `t` in the address wins over steps given here.
 * @param {import('./app.mjs').App} app @param {Partial<import('./view_state.mjs').View>} defaults
 */
export function withDefaults(app, defaults) {
  return new Proxy(app, {
    get(target, key) {
      if (key === 'view') return filled(target.view, defaults);
      const value = target[key];
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** Pure part of withDefaults. Defaults of one attempt do not hold for another. */
export function filled(view, defaults) {
  const found = { ...view };
  if (view.attempt !== null && (defaults.attempt ?? view.attempt) !== view.attempt) return found;
  for (const [key, value] of Object.entries(defaults)) {
    const isEmpty = found[key] === null || (Array.isArray(found[key]) && found[key].length === 0);
    if (isEmpty && !(key === 'steps' && found.t !== null)) found[key] = value;
  }
  return found;
}
