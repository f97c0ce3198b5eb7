/** Sentences of the Stuck page. Pure. */

/** 40 s, 3 min, 2 h, 5 days */
export function ago(seconds) {
  const whole = Math.max(seconds, 0);
  if (whole < 120) return `${Math.round(whole)} s`;
  if (whole < 7200) return `${Math.round(whole / 60)} min`;
  return whole < 172800 ? `${Math.round(whole / 3600)} h` : `${Math.round(whole / 86400)} days`;
}

/** 17:22:51 on this day, else with the date; local time. */
export function clock(seconds, nowSeconds = Date.now() / 1000) {
  const date = new Date(seconds * 1000);
  const time = date.toLocaleTimeString('en-GB');
  const isToday = date.toDateString() === new Date(nowSeconds * 1000).toDateString();
  return isToday ? time : `${date.toLocaleDateString('en-GB', { day: 'numeric', month: 'short', year: 'numeric' })}, ${time}`;
}

const HEADLINES = {
  moved: 'Ranks that made no progress when the watchdog looked at them have gone on.',
  ended: 'The job has ended; nothing is stuck.',
  none: 'Nothing is stuck.',
};

export const isStuck = ({ state }) => state === 'stuck';

/** The sentence on top; null where the findings below it say what became of the job. */
export function headlineOf(found) {
  if (isStuck(found)) return found.status || 'Ranks wait.';
  return found.findings.length ? null : HEADLINES[found.state];
}

/** What was checked where nothing is stuck; what the ranks that are waited for do where no finding says so. */
export function detailsOf(found) {
  if (isStuck(found)) return found.findings.length ? [] : found.reasons;
  return [found.checked, ...(found.checks ?? [])].filter(Boolean);
}

const OVER = {
  lost: 'Nothing arrives from the job any more; this is what was seen last. ',
  finished: 'The job is over; this is what was seen last. ',
};

/** When it began and was looked at, by the server's clock; `withAge`: and how long ago that is. */
export function whenText(found, nowSeconds = found.now_s, withAge = true) {
  const { at_s: at, since_s: since, heard_s: heard, run_state: state } = found;
  const today = withAge ? nowSeconds : undefined;
  const point = (seconds) => clock(seconds, today) + (withAge ? `, ${ago(nowSeconds - seconds)} ago` : '');
  if (!isStuck(found)) return heard === null ? '' : `Last heartbeat: ${point(heard)}.`;
  if (at === null) return found.checked;
  return `${OVER[state] ?? ''}${since === null ? '' : `Since ${clock(since, today)}. `}Last look: ${point(at)}.`;
}

/** The letter of a group of equal stacks. */
export const letter = (index) => String.fromCharCode(65 + index);

/** rank 5; ranks 8 to 15 */
export const cellText = ({ rank, num_ranks: count }) => (count === 1 ? `rank ${rank}` : `${count} ranks from ${rank} on`);

/** "function file:12" in its two parts. */
export function frameParts(frame) {
  const at = frame.indexOf(' ');
  return at < 0 ? [frame, ''] : [frame.slice(0, at), frame.slice(at + 1)];
}

/** Class of a group's colour: the largest of several is neutral. */
export function groupClass(index, count) {
  if (index === null || index === undefined) return 'stack-none';
  return count > 1 && index === count - 1 ? 'stack-most' : `stack-${index % 6}`;
}
