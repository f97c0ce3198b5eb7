/** Reads the binary answers of app/web/arrays.py. */

const TYPES = {
  uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array,
  int8: Int8Array, int16: Int16Array, int32: Int32Array,
  float32: Float32Array, float64: Float64Array,
};

/**
 * @param {ArrayBuffer} buffer
 * @returns {{arrays: Object<string, ArrayLike<number>>, meta: Object}} arrays are views on `buffer`
 */
export function unpackArrays(buffer) {
  const headerBytes = new DataView(buffer).getUint32(0, true);
  const text = new TextDecoder().decode(new Uint8Array(buffer, 4, headerBytes));
  const { arrays: descriptions, ...meta } = JSON.parse(text);
  const arrays = {};
  for (const [name, { dtype, length, offset }] of Object.entries(descriptions)) {
    arrays[name] = new TYPES[dtype](buffer, 4 + headerBytes + offset, length);
  }
  return { arrays, meta };
}
