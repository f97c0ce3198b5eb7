/** Keeps a timeline in step with the view state and with new data of the run. */

import { stepsShown } from './lanes/draw_axes.mjs';

const EDGE_SHARE = 0.02;  // of the window; a step of which less is in sight is at its edge

const isEqual = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** The steps in the window, for the strip and the scope chip; null without steps. */
export function scopeOf({ tile, window, geometry, serverChooses, app }) {
  if (!tile || !window) return null;
  const inside = stepsShown(tile, geometry)
    .filter(({ step, begin, end }) => step >= 0
      && Math.min(end, window.end) - Math.max(begin, window.begin) > EDGE_SHARE * (window.end - window.begin))
    .map(({ step }) => step);
  return inside.length ? { steps: [inside[0], inside[inside.length - 1]], why: serverChooses && app.view.steps ? 'chosen' : 'in the window' } : null;
}

/** @returns {{destroy: () => void}} */
export function followView(timeline) {
  const { app, options } = timeline;
  let before = app.view;
  const onView = () => {
    const [old, view] = [before, app.view];
    before = view;
    if (view.run !== old.run || view.page !== old.page) return;  // the page is about to change
    timeline.shown.rank = view.rank;
    if (view.finding !== old.finding) timeline.roles.now();
    if (view.attempt !== old.attempt) {
      timeline.open();
    } else if (!isEqual(view.steps, old.steps) && view.steps) {
      if (view.t && isEqual(view.t, old.t)) app.set({ t: null });  // the steps are the newer choice
      timeline.showSteps();
    } else if (!isEqual(view.t, old.t) && !isEqual(view.t, timeline.writtenWindow)) {
      timeline.open();
    } else if (!isEqual(view.ranks, old.ranks)) {
      if (!isEqual(view.ranks, timeline.geometry.ranks)) timeline.setLanes(view.ranks);
    } else if (view.rank !== old.rank && !view.ranks.length
        && !timeline.geometry.ranks.includes(view.rank)) {
      timeline.setLanes([]);
    }
    timeline.redraw();
  };
  const onRun = ({ detail }) => {
    if (detail.run !== app.view.run) return;
    timeline.news();
    timeline.roles.news();
  };
  if (options.data) {  // of a shared file: it has this tile alone
    app.addEventListener('view', () => {
      timeline.shown.rank = app.view.rank;
      timeline.redraw();
    });
    return { destroy() {} };
  }
  const reportSteps = () => {
    if (!options.compact) app.showScope(scopeOf(timeline));
  };
  timeline.addEventListener('tile', reportSteps);
  timeline.addEventListener('window', reportSteps);
  app.addEventListener('view', onView);
  const onLink = ({ detail }) => {
    if (!options.compact) Object.assign(detail.patch, timeline.linkPatch());
  };
  app.addEventListener('run', onRun);
  app.addEventListener('link', onLink);
  return {
    destroy() {
      app.removeEventListener('view', onView);
      app.removeEventListener('run', onRun);
      app.removeEventListener('link', onLink);
    },
  };
}
