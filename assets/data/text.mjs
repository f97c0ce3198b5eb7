/** Numbers of data loaders as text. Pure. */

/** Milliseconds: '80.3 ms', '0.031 ms'. */
export const milliseconds = (value) => (value >= 1 ? `${value.toFixed(1)} ms` : `${value.toPrecision(2)} ms`);

/** A share of 0 to 1: '34 %', '2.1 %'. */
export const percent = (ratio) => `${(100 * ratio).toFixed(ratio < 0.1 && ratio > 0 ? 1 : 0)} %`;

/** '1,240 MB'. */
export const megabytes = (value) => `${Math.round(value).toLocaleString('en')} MB`;

/** Of a sample: '0.031 MB', '1.4 MB', '1,240 MB', 'unknown'. */
export const sampleSize = (value) => (value === null ? 'unknown' : value >= 10 ? megabytes(value) : `${value.toPrecision(2)} MB`);

const MOST_COMPUTING = 0.6;
const MOST_TRANSFORM = 0.5;

/** What a worker spends its time with. */
export function doing({ cpu_ratio: cpu, transform_ratio: ofTransform, transform }) {
  if (transform && ofTransform >= MOST_TRANSFORM) return `transform ${transform} ${percent(ofTransform)}`;
  return cpu >= MOST_COMPUTING ? `computes ${percent(Math.min(cpu, 1))}` : `waits ${percent(1 - cpu)}`;
}

const SLOWER = 1.5;

/** Whether a worker stands out: some times as slow as is usual of its source, and not only for a moment. */
export const standsOut = ({ slower, sample_ms: ms }) => slower >= SLOWER && ms >= 1;

/** 'the first 128 of 4,096', or nothing where all are there. */
export const shownOf = (shown, all, what) => (shown < all ? `the first ${shown} of ${all.toLocaleString('en')} ${what}` : '');

/** `the 32 of 12,288 ranks that wait longest`, or nothing where all are there. */
export const longestOf = (shown, all) => (shown < all ? `the ${shown} of ${all.toLocaleString('en')} ranks that wait longest` : '');

const WAITS = {
  at_step: 'at the end of a step', at_microbatch: 'after each micro-batch', in_pipeline: 'in a pipeline (1F1B)',
};

/** What dealing sequences again saves, by where replicas wait for each other. */
export function saved(shares) {
  const known = Object.entries(shares).filter(([, share]) => share !== null);
  if (!known.length) return '';
  return `Saved where replicas wait for each other ${known.map(([where, share]) => `${WAITS[where]}: ${percent(Math.max(share, 0))}`).join('; ')}.`;
}
