import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aboutText, cells, deviceCells, number, pointText, roofText, shortName, slowCells } from '../../../assets/roofline/text.mjs';

const MM = {
  name: 'aten::mm', shapes: '4 x 8, 8 x 2', dtype: 'bfloat16', calls: 48, ms: 4.0155, tflops_per_s: 616.58, gb_per_s: 890, intensity: 692.8, bound: 'compute',
  roof_share: 0.6234, lost_ms: 1.512,
};

test('numbers have three digits, and those before the point', () => {
  assert.deepEqual([616.58, 1365.3, 27.95, 0.01234, 0, null].map(number), ['617', '1,365', '27.9', '0.0123', '0', '']);
});

test('cells of an operation, and of one about which nothing is known', () => {
  assert.deepEqual(cells(MM, 45.1), ['bfloat16', '48', '4.0 ms', '8.9 %', '617', '890', '693', 'compute', '62.3 %', '1.5 ms']);
  const unknown = { ...MM, dtype: '', tflops_per_s: null, gb_per_s: null, intensity: null, bound: null, roof_share: null, lost_ms: null };
  assert.deepEqual(cells(unknown, 0), ['', '48', '4.0 ms', '', '', '', '', '', '', '']);
});

test('what the section and its points are about', () => {
  const found = { steps: [6, 6], kernel_ms: 45.13, num_ranks: 1, roofs: { device: 'NVIDIA H100', gb_per_s: 3350 } };
  assert.equal(aboutText(found), 'step 6: 45.1 ms of kernels per step, 1 rank, NVIDIA H100, 3,350 GB/s');
  assert.equal(aboutText({ ...found, steps: null, num_ranks: 8, roofs: null }), 'outside of steps: 45.1 ms of kernels per step, 8 ranks, devices of several kinds');
  assert.equal(aboutText({ ...found, roofs: { device: '', gb_per_s: null } }), 'step 6: 45.1 ms of kernels per step, 1 rank');
  assert.equal(pointText(MM), 'mm 4 x 8, 8 x 2 (bfloat16): 617 TFLOP/s at 693 FLOP/B, 62.3 % of its roofline');
  assert.equal(roofText({ precision: 'half', tflops: 989 }), '989 TFLOP/s, 16 bits');
  assert.equal(roofText({ precision: 'given', tflops: 0.5 }), '0.5 TFLOP/s, as given');
  assert.equal(shortName('my::op'), 'my::op');
});

test('cells of a slow kernel', () => {
  const slow = { operation: 'aten::mm', shapes: '4 x 8', kernel: 'gemm', median_us: 260, peers_us: 200.5, excess: 0.297, lost_ms: 0.3 };
  assert.deepEqual(slowCells(slow), ['mm 4 x 8', 'gemm', '260 \u00b5s', '201 \u00b5s', '+29.7 %', '0.30 ms']);
});

test('a device that is slow has cells of its own, as none of its kernels need be slow besides', () => {
  const rank = { rank: 3, is_device: true, device_excess: 0.214, kernels: [], num_compared: 22, lost_ms: 4.01 };
  assert.deepEqual(deviceCells(rank), ['the device: middle of 22 kernels', '', '', '', '+21.4 %', '4.0 ms']);
});
