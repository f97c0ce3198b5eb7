/** The part of the view state of the page Model, in links `m.NAME=value`. Values are text; '' means not set. */

/** @param {import('../../lib/app.mjs').App} app @param {Object<string, ?string|number>} patch */
export function setModel(app, patch, options) {
  app.set({ model: merged(app.view.model, patch) }, options);
}

/** Pure part of setModel. */
export function merged(model, patch) {
  const state = { ...model };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null || value === undefined || value === '') delete state[key];
    else state[key] = String(value);
  }
  return state;
}
