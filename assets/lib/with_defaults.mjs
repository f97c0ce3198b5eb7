/**
 * `app` for a view with defaults of its own: fields that are empty in the view state come from
 * `defaults`. A time window `t` in the URL takes precedence over default steps.
 * @param {import('./app.mjs').App} app @param {Partial<import('./view_state.mjs').View>} defaults
 */
export function withDefaults(app, defaults) {
  return new Proxy(app, {
    get(target, key) {
      if (key === 'view') return viewWithDefaults(target.view, defaults);
      const value = target[key];
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** Pure part of withDefaults. Defaults of one attempt do not apply to another. */
export function viewWithDefaults(view, defaults) {
  const merged = { ...view };
  if (view.attempt !== null && (defaults.attempt ?? view.attempt) !== view.attempt) return merged;
  for (const [key, value] of Object.entries(defaults)) {
    const isEmpty = merged[key] === null || (Array.isArray(merged[key]) && merged[key].length === 0);
    if (isEmpty && !(key === 'steps' && merged.t !== null)) merged[key] = value;
  }
  return merged;
}
