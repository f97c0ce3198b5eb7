/** The description of a slice, and the tooltip that shows it. */
import { labelOf } from '../../lib/canvas/kind_colours.mjs';
import { clockTime, formatBytes, formatNs } from '../../lib/canvas/time_scale.mjs';

const label = (kind) => labelOf(kind);

/**
 * Title and rows that describe a slice. Pure.
 * @returns {{title: string, rows: [string, string][]}}
 */
export function sliceText(slice, meta) {
  if (slice.wait || ['waiting', 'upstream', 'bubble', 'not_visible'].includes(slice.kind)) {
    return idleText(slice, meta);
  }
  const { span } = slice;
  if (slice.count > 1) {
    return {
      title: `${slice.count} spans, mostly ${label(slice.kind)}`,
      rows: [['over', formatNs(slice.end - slice.begin)], ['covered', formatNs(slice.busy)],
        ['longest', span?.name ?? '']],
    };
  }
  const rows = [['kind', label(slice.kind)],
    span.open ? ['open', `${formatNs(span.dur)} and more, to the end of the record`] : ['duration', formatNs(span.dur)]];
  const own = slice.end - slice.begin;
  if (Math.abs(own - span.dur) > 1 && !span.open) rows.push(['this part', formatNs(own)]);
  if (span.cpu >= 0) rows.push(['CPU time', formatNs(span.cpu)]);
  const unknown = meta.extent?.last_step < 0 ? 'not known' : 'before step 0';
  rows.push(['step', span.step < 0 ? unknown : String(span.step)]);
  if (span.microbatch >= 0) rows.push(['micro-batch', String(span.microbatch)]);
  if (span.chunk >= 0) rows.push(['chunk', String(span.chunk)]);
  if (span.recompute) rows.push(['recomputed', 'yes']);
  if (span.bytes >= 0) rows.push(['bytes', formatBytes(span.bytes)]);
  if (span.peer >= 0) rows.push(['peer', `rank ${span.peer}`]);
  if (span.seq >= 0) rows.push(['collective no.', String(span.seq)]);
  if (meta.clock === 'absolute') rows.push(['begin', clockTime(meta.t0_ns, span.begin)]);
  return { title: span.name, rows };
}

function idleText(slice, meta) {
  const rows = [['time', formatNs(slice.end - slice.begin)]];
  const rank = slice.wait?.rank;
  const title = {
    waiting: rank >= 0 ? `waiting for rank ${rank}` : 'waiting for a rank',
    upstream: rank >= 0 ? `waiting for rank ${rank} of another stage` : 'waiting for another stage',
    bubble: labelOf('bubble', meta), not_visible: 'not visible',
  }[slice.kind];
  const note = {
    waiting: 'it arrived last at this collective',
    upstream: 'it may be late or only follow the schedule',
    bubble: 'waiting in communication, no late rank',
    not_visible: 'nothing was recorded here',
  }[slice.kind];
  rows.push(['', note]);
  if (slice.count > 1) rows.push(['pieces', String(slice.count)]);
  return { title, rows };
}

/** Rows as a definition list. */
export function listOf({ title, rows }) {
  const list = document.createElement('dl');
  const head = document.createElement('dt');
  head.className = 'title';
  head.textContent = title;
  list.append(head);
  for (const [name, value] of rows) {
    const [term, text] = [document.createElement('dt'), document.createElement('dd')];
    term.textContent = name;
    text.textContent = value;
    list.append(term, text);
  }
  return list;
}

/** The tooltip next to the mouse. */
export function makeTooltip(timeline, parent) {
  const box = document.createElement('div');
  box.className = 'tl-tip';
  box.hidden = true;
  parent.append(box);
  const show = ({ detail: { slice, x, y } }) => {
    box.hidden = !slice;
    if (!slice) return;
    box.replaceChildren(listOf(sliceText(slice, timeline.tile.meta)));
    const right = x + 16 + box.offsetWidth > parent.clientWidth;
    box.style.left = `${Math.max(right ? x - box.offsetWidth - 12 : x + 16, 0)}px`;
    box.style.top = `${Math.min(y + 14, Math.max(parent.clientHeight - box.offsetHeight, 0))}px`;
  };
  timeline.addEventListener('hover', show);
  return { destroy: () => timeline.removeEventListener('hover', show) };
}
