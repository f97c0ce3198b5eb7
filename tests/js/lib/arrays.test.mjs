import assert from 'node:assert/strict';
import test from 'node:test';
import { unpackArrays } from '../../../assets/lib/arrays.mjs';

/** An answer as app/web/arrays.py writes it, put together by hand. */
function answer(header, buffers) {
  const text = new TextEncoder().encode(JSON.stringify(header));
  const padded = text.length + ((8 - ((4 + text.length) % 8)) % 8);
  const made = new Uint8Array(4 + padded + buffers.length).fill(0x20);
  new DataView(made.buffer).setUint32(0, padded, true);
  made.set(text, 4);
  made.set(buffers, 4 + padded);
  return made.buffer;
}

test('arrays are views on the answer, the rest is meta', () => {
  const buffer = answer({
    arrays: { rank: { dtype: 'uint32', length: 2, offset: 0 }, code: { dtype: 'uint8', length: 3, offset: 8 } },
    width: 3, label: 'üñ',
  }, [5, 0, 0, 0, 0, 1, 0, 0, 7, 8, 9, 0, 0, 0, 0, 0]);
  const { arrays, meta } = unpackArrays(buffer);
  assert.deepEqual([...arrays.rank], [5, 256]);
  assert.deepEqual([...arrays.code], [7, 8, 9]);
  assert.equal(arrays.code.buffer, buffer);
  assert.deepEqual(meta, { width: 3, label: 'üñ' });
});

test('an answer that was cut off is an error, not wrong numbers', () => {
  const buffer = answer({ arrays: { a: { dtype: 'float64', length: 4, offset: 0 } } }, [0, 0, 0, 0, 0, 0, 0, 0]);
  assert.throws(() => unpackArrays(buffer), RangeError);
});

test('an unknown type is an error', () => {
  assert.throws(() => unpackArrays(answer({ arrays: { a: { dtype: 'int64', length: 0, offset: 0 } } }, [])));
});
