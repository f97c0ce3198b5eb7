/** The ledger of a run's time as text and shares. Pure. */
import { duration } from '../lib/value_text.mjs';

const percent = (share) => `${(100 * share).toFixed(1)} %`;

/** @param {object} found answer of `goodput` */
export function headline({ effective_share: share, wall_s: wall, attempts, num_interruptions: number }) {
  const tries = `${attempts.length} attempt${attempts.length > 1 ? 's' : ''}, ${number} interruption${number === 1 ? '' : 's'}`;
  return share === null ? `When the attempts started is unknown, so shares of the time are too; ${tries}.`
    : `${percent(share)} of ${duration(wall)} was productive (effective training time ratio); ${tries}.`;
}

/** Parts of an attempt as {part, share, text}, shares of `most` s; what is in no part comes last. */
export function segments(attempt, parts, words, most) {
  const found = parts.map((part) => [part, attempt.parts[part]]);
  found.push(['unaccounted', Math.max(attempt.unaccounted_s, 0)]);
  return found.filter(([, seconds]) => seconds > 0).map(([part, seconds]) => ({
    part, share: seconds / most, text: `${words[part] ?? 'in no part'}: ${duration(seconds)}${attempt.wall_s ? `, ${percent(seconds / attempt.wall_s)}` : ''}`,
  }));
}

/** Cells of an attempt: how it ended, its steps, seconds of each part, its wall time. */
export const cells = (attempt, parts) => [
  attempt.ended, attempt.num_steps ? (attempt.num_steps === 1 ? `${attempt.first_step}` : `${attempt.first_step} to ${attempt.last_step}`) : 'none',
  ...parts.map((part) => duration(attempt.parts[part])), duration(attempt.wall_s),
];

/** Points of a curve in a box, as an SVG path: x logarithmic over the intervals, y the share. */
export function path(curve, column, { width, height }) {
  const known = curve.filter((point) => point[column] !== null);
  if (!known.length) return '';
  return known.map((point, at) => `${at ? 'L' : 'M'}${xOf(curve, point[0], width).toFixed(1)} ${(height * (1 - point[column])).toFixed(1)}`).join('');
}

/** Where an interval lies, from 0 to `width`. */
export function xOf(curve, seconds, width) {
  const [least, most] = [Math.log(curve[0][0]), Math.log(curve[curve.length - 1][0])];
  return (width * (Math.log(seconds) - least)) / (most - least);
}

/** Intervals for the axis: 1, 10 s, 1, 10 min, ... within the curve. */
export const ticks = (curve) => [0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36000, 360000].filter(
  (seconds) => seconds >= curve[0][0] && seconds <= curve[curve.length - 1][0]);

/** What the lines of the curve are. */
export const caption = ({ mtbf_s: mean }) => `Share of the time that is training, by the work between two saves: ${
  mean === null ? 'if interruptions came as often as they still may' : 'thick for the mean time between interruptions, thin for the ends of its 95 % interval'}.`;
