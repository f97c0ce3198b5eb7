/** Numbers and sentences of the section MFU. Pure. */
import { milliseconds, stepsText } from '../lib/value_text.mjs';

/** '+1.9', '+0.28'. */
export const signed = (value) => `${value < 0 ? '\u2212' : '+'}${Math.abs(value).toFixed(Math.abs(value) >= 1 ? 1 : 2)}`;

/** What the waterfall is about: 'steps 3 to 13, the newest 11: 1,981 ms per step, 8 ranks'. */
export function aboutText(fall, why) {
  const reason = why && why !== 'chosen' ? `, ${why}` : '';
  const ranks = `${fall.num_ranks.toLocaleString('en')} rank${fall.num_ranks === 1 ? '' : 's'}`;
  return `${stepsText([fall.first_step, fall.last_step])}${reason}: ${milliseconds(fall.step_ms)} per step, ${ranks}`;
}

/** The button of a rank at a part. The others wait for a rank named at 'waiting': it waits least itself. */
export const rankLabel = (name, { rank }) => `${name === 'waiting' ? 'for ' : ''}rank ${rank}`;

/** What a button at a rank of a part says of it. */
export const rankText = (name, { rank, ms }) => (name === 'waiting'
  ? `rank ${rank} makes others wait ${milliseconds(ms)} per step, added up over them`
  : `rank ${rank}: ${milliseconds(ms)} per step`);

/** 'reduce_scatter, all_gather'. */
export const operationsText = (operations) => operations.map(({ name }) => name).join(', ');

/** 'reduce_scatter 4.0 ms, all_gather 0.50 ms per step, hidden time included'. */
export const operationsTitle = (operations) => (
  `${operations.map(({ name, ms }) => `${name} ${milliseconds(ms)}`).join(', ')} per step, hidden time included`);

/** Heading of the column of changes. */
export const unitText = (comparison) => (comparison.mfu_before === null ? '% of a step before' : 'points of MFU');
