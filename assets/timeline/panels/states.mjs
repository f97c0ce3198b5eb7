/** Messages over the canvas: loading, no data in the window, nothing recorded yet, an error. */
import { formatNs } from '../../lib/canvas/time_scale.mjs';
import { make } from '../../lib/dom.mjs';
import { button } from './dom.mjs';

/** @returns {{destroy: () => void}} */
export function showStates(timeline, parent) {
  const box = make('div', { class: 'tl-state', role: 'status', hidden: true });
  parent.append(box);
  const show = ({ detail }) => {
    box.hidden = detail.name === 'drawn';
    timeline.canvas.style.visibility = timeline.tile || detail.name === 'loading' ? '' : 'hidden';
    box.classList.toggle('over', timeline.tile !== null);
    box.replaceChildren(...({
      drawn: () => [],
      loading: () => [make('p', { class: 'quiet' }, 'Loading lanes ...')],
      empty: () => emptyState(timeline),
      nothing: () => [make('p', {}, detail.text)],
      error: () => errorState(timeline, detail.text),
    })[detail.name]());
  };
  timeline.addEventListener('state', show);
  return { destroy: () => timeline.removeEventListener('state', show) };
}

/** Sentence about a window in which nothing was recorded. Pure. */
export function emptySentence(ranks, extent) {
  const who = ranks.length === 1 ? `Rank ${ranks[0]} has` : `These ${ranks.length} ranks have`;
  return `${who} no spans in this window; there is data from ${formatNs(extent.begin)} to `
    + `${formatNs(extent.end)} after the run's start.`;
}

function emptyState(timeline) {
  return [
    make('p', {}, emptySentence(timeline.geometry.ranks, timeline.extent)),
    button('Show where there is data', () => timeline.moveTo(timeline.extent)),
    button('Newest steps', () => timeline.follow()),
  ];
}

function errorState(timeline, text) {
  const { view } = timeline.app;
  const parts = [
    make('p', {}, make('strong', {}, 'The timeline could not be loaded: '), text),
    button('Try again', () => timeline.load(0)),
  ];
  if (view.ranks.length || view.rank !== null || view.t || view.steps) {
    parts.push(button('Show the first lanes and newest steps', () => {
      timeline.app.set({ ranks: [], rank: null, t: null, steps: null });
      timeline.open();
    }));
  }
  return parts;
}
