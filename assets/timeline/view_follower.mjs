/** Keeps a timeline in step with the view state and with new data of the run. */

const isEqual = (a, b) => JSON.stringify(a) === JSON.stringify(b);

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
  if (options.data) return { destroy() {} };
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
