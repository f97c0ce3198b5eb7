/** Numbers and sentences of the section MFU. Pure. */
import { stepsText } from '../lib/value_text.mjs';

/** A share of 0 to 1: '34.1 %', '0.04 %', '< 0.01 %'. */
export function percent(share) {
  const value = 100 * share;
  if (value > 0 && value < 0.01) return '< 0.01 %';
  return `${Math.abs(value) >= 0.1 || value === 0 ? value.toFixed(1) : value.toPrecision(1)} %`;
}

/** '80.3 ms', '1,240 ms', '12.4 s', '< 0.01 ms'. */
export function milliseconds(ms) {
  if (ms > 0 && ms < 0.01) return '< 0.01 ms';
  if (ms >= 10_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${ms >= 100 ? Math.round(ms).toLocaleString('en') : ms >= 1 || ms === 0 ? ms.toFixed(1) : ms.toPrecision(2)} ms`;
}

/** '+1.9', '+0.28'. */
export const signed = (value) => `${value < 0 ? '\u2212' : '+'}${Math.abs(value).toFixed(Math.abs(value) >= 1 ? 1 : 2)}`;

/** What the waterfall is about: 'steps 3 to 13, the newest 11: 1,981 ms per step, 8 ranks'. */
export function aboutText(fall, why) {
  const reason = why && why !== 'chosen' ? `, ${why}` : '';
  const ranks = `${fall.num_ranks.toLocaleString('en')} rank${fall.num_ranks === 1 ? '' : 's'}`;
  return `${stepsText([fall.first_step, fall.last_step])}${reason}: ${milliseconds(fall.step_ms)} per step, ${ranks}`;
}

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
