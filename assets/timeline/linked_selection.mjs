/**
 * Keeps what is selected on the timeline in the URL: the span with its panel, the area, marks and pins. A
 * link opens them again.
 */

const isEqual = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** Fields of the view state for what a timeline shows. Pure. */
export function fieldsOf({ selected, area, marks, pinned }, ranks) {
  const span = selected?.row === undefined || !(selected.rank >= 0) ? null : [
    selected.rank, selected.tileRow ?? selected.row, ...timesOf(selected)];
  return {
    span, marks: marks.map(Math.round), pins: [...pinned],
    area: area === null ? null : [Math.round(area.begin), Math.round(area.end), ranks[area.lanes[0]], ranks[area.lanes[1]]],
  };
}

/** Begin and end of the span, which may be longer than the box that is drawn of it. */
function timesOf({ span, count = 1, begin, end }) {
  const times = span && count === 1 ? [span.begin, span.begin + span.dur] : [begin, end];
  return times.map(Math.round);
}

/** The area of the view state for lanes in this order; null if a lane is missing. Pure. */
export function areaOf(field, ranks) {
  if (field === null) return null;
  const lanes = field.slice(2).map((rank) => ranks.indexOf(rank)).sort((a, b) => a - b);
  return lanes[0] < 0 ? null : { begin: field[0], end: field[1], lanes };
}

/** @returns {{destroy: () => void}} */
export function linkSelection(timeline) {
  const { app, options, shown } = timeline;
  if (options.compact || options.data) return { destroy() {} };
  let written = null;
  let isRestoring = false;
  const write = () => {
    if (isRestoring || timeline.sliceToSelect) return;
    const fields = fieldsOf(shown, timeline.geometry.ranks);
    if (isEqual(fields, written)) return;
    written = fields;
    app.set(fields);
  };
  const wanted = () => {
    const { span, area, marks, pins } = app.view;
    return { span, marks, pins, area };
  };
  const applyPins = () => {
    shown.pinned = new Set(app.view.pins);
    shown.marks = [...app.view.marks];
  };
  const restore = () => {
    isRestoring = true;
    written = wanted();
    const { span, area } = app.view;
    applyPins();
    timeline.sortLanes();
    timeline.setArea(areaOf(area, timeline.geometry.ranks));
    if (span) timeline.goTo({ rank: span[0], row: span[1], begin: span[2], end: span[3] });
    else timeline.select(null);
    isRestoring = false;
  };
  const onTile = () => {
    if (written === null) restore();
  };
  const onView = () => {  // the back button, or a link on the page
    if (written !== null && timeline.tile && !isEqual(wanted(), written)) restore();
  };
  applyPins();  // before the lanes are put in order
  const kinds = ['select', 'area', 'marks', 'pins'];
  kinds.forEach((kind) => timeline.addEventListener(kind, write));
  timeline.addEventListener('tile', onTile);
  app.addEventListener('view', onView);
  return {
    destroy() {
      kinds.forEach((kind) => timeline.removeEventListener(kind, write));
      timeline.removeEventListener('tile', onTile);
      app.removeEventListener('view', onView);
    },
  };
}
