/** The panel below the canvas: the selected slice with its collective, or the sums of an area. */
import { formatNs } from '../../lib/canvas/time_scale.mjs';
import { make } from '../../lib/dom.mjs';
import { button } from './dom.mjs';
import { instanceOf, loadMembers, membersTable } from './members.mjs';
import { loadSums, sumsTable } from './sums.mjs';
import { sliceText, listOf } from './tooltip.mjs';

/** @param {(member: Object, instance: Object) => void} go */
export function makeDetails(timeline, element, go) {
  let loading = new AbortController();
  const restartLoading = () => {
    loading.abort();
    loading = new AbortController();
    return loading.signal;
  };

  async function fill(container, load) {
    container.replaceChildren(make('p', { class: 'quiet' }, 'loading ...'));
    try {
      container.replaceChildren(await load(restartLoading()));
    } catch (error) {
      if (error.name !== 'AbortError') container.replaceChildren(make('p', { class: 'failed' }, error.message));
    }
  }

  function showSlice({ detail: slice }) {
    if (!slice) {
      if (!timeline.shown.area) element.hidden = true;
      return;
    }
    element.hidden = false;
    const text = sliceText(slice, timeline.tile.meta);
    const instance = instanceOf(slice);
    const membersBox = make('div', { class: 'tl-members' });
    element.replaceChildren(
      make('header', {}, make('h3', {}, `Rank ${slice.rank}: ${text.title}`),
        button('Zoom to it', () => timeline.fit()), button('Close', () => timeline.select(null))),
      make('div', { class: 'tl-columns' }, listOf({ title: '', rows: text.rows }), membersBox));
    if (instance) {
      fill(membersBox, async (signal) => membersTable(
        await loadMembers(timeline, instance, signal), (member) => go(member, instance),
        (rank) => timeline.isJudgedAt(rank, slice.begin)));
    }
  }

  function showArea({ detail: area }) {
    if (!area) {
      if (!timeline.shown.selected) element.hidden = true;
      return;
    }
    element.hidden = false;
    const ranks = timeline.geometry.ranks.slice(area.lanes[0], area.lanes[1] + 1);
    const length = area.end - area.begin;
    const sumsBox = make('div');
    element.replaceChildren(
      make('header', {}, make('h3', {}, `${formatNs(length)} of ${ranks.length} lane${ranks.length > 1 ? 's' : ''}`),
        button('Zoom to it', () => timeline.fit()),
        button('Close', () => {
          timeline.setArea(null);
          element.hidden = true;
        })), sumsBox);
    fill(sumsBox, async (signal) => sumsTable(await loadSums(timeline, ranks, area, signal), length, timeline.tile.meta));
  }

  timeline.addEventListener('select', showSlice);
  timeline.addEventListener('area', showArea);
  return {
    destroy() {
      loading.abort();
      timeline.removeEventListener('select', showSlice);
      timeline.removeEventListener('area', showArea);
    },
  };
}
