/** Values and steps as text. Pure. */

/** 'step 4' or 'steps 4 to 9'. */
export const stepsText = ([first, last]) => (first === last ? `step ${first}` : `steps ${first} to ${last}`);

/** A text of at most `most` letters, cut in its middle: names differ at their ends. Empty rather than one or two letters. */
export function cutInMiddle(text, most) {
  if (text.length <= most) return text;
  const kept = most - 1;
  return kept < 3 ? '' : `${text.slice(0, Math.ceil(kept / 2))}\u2026${text.slice(text.length - Math.floor(kept / 2))}`;
}

/** A value in the metric's unit: '1.41 x', '12.3 ms', 'not recorded'. */
export function formatValue(value, metric) {
  if (value === null || value === undefined || Number.isNaN(value)) return 'not recorded';
  if (metric.unit !== 'x' && value !== 0 && Math.abs(value) < 1) return `${value.toPrecision(2)} ${metric.unit}`;
  const decimals = metric.unit !== 'x' && Math.abs(value) >= 100 ? 0 : metric.decimals;
  const grouped = Math.abs(value) >= 10000
    ? Number(value.toFixed(0)).toLocaleString('en') : value.toFixed(decimals);
  return `${grouped} ${metric.unit}`;
}

/** '4.2 s', '230 ms', '12 min', '3.5 h'; 'unknown'. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return 'unknown';
  if (seconds === 0) return '0 s';
  if (seconds < 0.9995) return `${(1000 * seconds).toPrecision(seconds < 0.0995 ? 2 : 3)} ms`;
  if (seconds < 119.5) return `${seconds.toFixed(seconds < 99.5 ? 1 : 0)} s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(1)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

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

/** "0.0123", "1.2e-8", "4,096" */
export function formatNumber(value) {
  if (!Number.isFinite(value)) return Number.isNaN(value) || value === null || value === undefined ? 'not recorded' : String(value);
  const size = Math.abs(value);
  if (value === 0) return '0';
  if (Number.isInteger(value) && size < 1e6) return value.toLocaleString('en');
  return size >= 1e5 || size < 1e-3 ? value.toExponential(2).replace(/\.?0+e/, 'e') : String(Number(value.toPrecision(4)));
}
