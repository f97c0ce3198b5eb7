/** Numbers and sentences of the section on single operations. Pure. */
import { milliseconds, percent, stepsText } from '../lib/value_text.mjs';

/** Three digits, and those before the point; empty where unknown. */
export function number(value) {
  if (value === null || value === undefined) return '';
  return value >= 100 ? Math.round(value).toLocaleString('en') : Number(value.toPrecision(3)).toString();
}

/** 'mm' of 'aten::mm'. */
export const shortName = (name) => name.replace(/^aten::/, '');

const PRECISIONS = { half: '16 bits', tf32: 'tf32', float32: 'float32', float8: '8 bits' };

/** What a roof is called in the chart: '989 TFLOP/s, 16 bits'. */
export const roofText = ({ precision, tflops }) => `${number(tflops)} TFLOP/s, ${PRECISIONS[precision] ?? 'as given'}`;

/** What the section is about: 'step 6: 45.1 ms of kernels per step, 1 rank, NVIDIA H100, 3,350 GB/s'. */
export function aboutText({ steps, kernel_ms: ms, num_ranks: ranks, roofs }) {
  const where = steps ? stepsText(steps) : 'outside of steps';
  const parts = [`${where}: ${milliseconds(ms)} of kernels per step`, `${ranks.toLocaleString('en')} rank${ranks === 1 ? '' : 's'}`];
  if (!roofs) parts.push('devices of several kinds');
  else parts.push(roofs.device, roofs.gb_per_s ? `${number(roofs.gb_per_s)} GB/s` : '');
  return parts.filter(Boolean).join(', ');
}

/** Cells of a row behind its name, as text: dtype, calls, time, share of it, speeds, bound, roofline, saving. */
export function cells(one, kernelMs) {
  return [
    one.dtype, number(one.calls), milliseconds(one.ms), kernelMs ? percent(one.ms / kernelMs) : '',
    number(one.tflops_per_s), number(one.gb_per_s), number(one.intensity), one.bound ?? '',
    one.roof_share === null ? '' : percent(one.roof_share), one.lost_ms === null ? '' : milliseconds(one.lost_ms),
  ];
}

/** What a point of the chart says: 'mm 4096 x 4096, 4096 x 4096 (bfloat16): 687 TFLOP/s at 1,365 FLOP/B, 69.5 % of its roofline'. */
export function pointText(one) {
  const share = one.roof_share === null ? '' : `, ${percent(one.roof_share)} of its roofline`;
  return `${shortName(one.name)} ${one.shapes} (${one.dtype}): ${number(one.tflops_per_s)} TFLOP/s at ${number(one.intensity)} FLOP/B${share}`;
}

/** Cells of a slow kernel behind its rank: what, kernel, its time, that of its peers, how much more, what it costs. */
export function slowCells(one) {
  return [
    `${shortName(one.operation)} ${one.shapes}`, one.kernel, `${number(one.median_us)} \u00b5s`, `${number(one.peers_us)} \u00b5s`,
    `+${percent(one.excess)}`, milliseconds(one.lost_ms),
  ];
}

/** The same cells of a device that is slow: the middle of all kernels that were compared. */
export function deviceCells(one) {
  return [`the device: middle of ${one.num_compared} kernels`, '', '', '', `+${percent(one.device_excess)}`, milliseconds(one.lost_ms)];
}
