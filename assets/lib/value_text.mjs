/** Values and steps as text. Pure. */

/** 'step 4' or 'steps 4 to 9'. */
export const stepsText = ([first, last]) => (first === last ? `step ${first}` : `steps ${first} to ${last}`);

/** A value in the metric's unit: '1.41 x', '12.3 ms', 'not recorded'. */
export function formatValue(value, metric) {
  if (value === null || value === undefined || Number.isNaN(value)) return 'not recorded';
  if (metric.unit !== 'x' && value !== 0 && Math.abs(value) < 1) return `${value.toPrecision(2)} ${metric.unit}`;
  const decimals = metric.unit !== 'x' && Math.abs(value) >= 100 ? 0 : metric.decimals;
  const grouped = Math.abs(value) >= 10000
    ? Number(value.toFixed(0)).toLocaleString('en') : value.toFixed(decimals);
  return `${grouped} ${metric.unit}`;
}
