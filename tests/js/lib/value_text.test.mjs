import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cutInMiddle } from '../../../assets/lib/value_text.mjs';

test('a long name is cut in its middle and keeps both ends', () => {
  const name = 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL';
  const cut = cutInMiddle(name, 21);
  assert.equal(cut, 'ncclDevKer\u202616_RING_LL');
  assert.equal(cut.length, 21);
  assert.equal(cutInMiddle(name, name.length), name);
});

test('no name is cut down to one or two letters', () => {
  assert.equal(cutInMiddle('forward', 3), '');
  assert.equal(cutInMiddle('forward', 4), 'fo\u2026d');
});
