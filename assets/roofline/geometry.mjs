/** Where the roofs and the operations are in the chart: both axes are logarithmic. Pure. */

/** Operations that have a place: those whose FLOPs and bytes are known. */
export const placed = (operations) => operations.filter((one) => one.intensity > 0 && one.tflops_per_s > 0);

/** Roofs of the precisions that occur: [{precision, tflops}], the highest first. */
export function roofsOf(operations, roofs) {
  if (!roofs) return [];
  if (roofs.given) return [{ precision: 'given', tflops: roofs.given }];
  const used = new Set(placed(operations).map((one) => one.precision));
  return Object.entries(roofs.tflops).filter(([precision, tflops]) => used.has(precision) && tflops)
    .map(([precision, tflops]) => ({ precision, tflops })).sort((a, b) => b.tflops - a.tflops);
}

const decades = (values) => {
  const logs = values.map(Math.log10);
  const low = Math.floor(Math.min(...logs));
  return [low, Math.max(Math.ceil(Math.max(...logs)), low + 1)];
};

/**
 * Whole powers of ten around all points, and around the knees of the roofs.
 * @returns {{x: number[], y: number[]}} lowest and highest exponent of each axis
 */
export function extent(operations, roofs, gbPerS) {
  const points = placed(operations);
  const knees = gbPerS ? roofs.map(({ tflops }) => (1e3 * tflops) / gbPerS) : [];
  return {
    x: decades([...points.map((one) => one.intensity), ...knees]),
    y: decades([...points.map((one) => one.tflops_per_s), ...roofs.map(({ tflops }) => tflops)]),
  };
}

/** Place of a value on an axis of `size` pixels whose exponents go from low to high. */
export const along = (value, [low, high], size) => (size * (Math.log10(value) - low)) / (high - low);

/** Corners of a roof, [intensity, TFLOP/s], from the left edge or where it enters from below; bandwidth unknown: flat. */
export function roofCorners(tflops, gbPerS, { x, y }) {
  const [left, right] = x.map((exponent) => 10 ** exponent);
  if (!gbPerS) return [[left, tflops], [right, tflops]];
  const slope = gbPerS / 1e3;  // TFLOP/s per FLOP/B
  const from = Math.max(left, 10 ** y[0] / slope);
  const knee = tflops / slope;
  if (knee <= from) return [[from, tflops], [right, tflops]];
  return knee >= right ? [[from, slope * from], [right, slope * right]] : [[from, slope * from], [knee, tflops], [right, tflops]];
}

/** SVG path through corners, in a box of this size. */
export function pathOf(corners, axes, { width, height }) {
  return corners.map(([flopsPerByte, tflops], index) => (
    `${index ? 'L' : 'M'}${along(flopsPerByte, axes.x, width).toFixed(1)} ${(height - along(tflops, axes.y, height)).toFixed(1)}`)).join('');
}

/** Radius of a point: its area is its share of the time. */
export const radius = (ms, kernelMs) => 3 + 13 * Math.sqrt(Math.min(ms / Math.max(kernelMs, 1e-9), 1));
