/** What the page Model shows, as links have it: `m.NAME=value`. Values are text; '' is not set. */

/** @param {import('../../lib/app.mjs').App} app @param {Object<string, ?string|number>} patch */
export function setModel(app, patch, options) {
  app.set({ model: merged(app.view.model, patch) }, options);
}

/** Pure part of setModel. */
export function merged(model, patch) {
  const all = { ...model };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null || value === undefined || value === '') delete all[key];
    else all[key] = String(value);
  }
  return all;
}
