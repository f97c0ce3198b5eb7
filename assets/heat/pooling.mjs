/**
 * Pools a heat map down to the available pixels: each block keeps its strongest cell. Without pooling,
 * drawing it smaller would drop rows, perhaps that of the only slow rank. Pure.
 */

/** Edges of at most `most` blocks over the blocks of `edges`, as evenly as whole blocks allow. */
function blocks(edges, most) {
  const count = edges.length - 1;
  const size = Math.max(1, Math.ceil(count / Math.max(1, most)));
  const firsts = [];
  for (let first = 0; first < count; first += size) firsts.push(first);
  return [...firsts, count];
}

/**
 * @param {import('./geometry.mjs').HeatData} data
 * @param {number} height @param {number} width available pixels
 * @returns {import('./geometry.mjs').HeatData} the same data if it fits
 */
export function pooledTo(data, height, width) {
  if (data.height <= height && data.width <= width) return data;
  const [rows, columns] = [blocks(data.rows, height), blocks(data.columns, width)];
  const [high, wide] = [rows.length - 1, columns.length - 1];
  const code = new Uint8Array(high * wide);
  for (let y = 0; y < high; y++) {
    for (let x = 0; x < wide; x++) {
      let strongest = 0;
      for (let row = rows[y]; row < rows[y + 1]; row++) {
        for (let column = columns[x]; column < columns[x + 1]; column++) {
          const candidate = data.code[row * data.width + column];
          // codes: 0 not recorded, 1 noise, 2s less, 2s + 1 more with strength s
          if (candidate >> 1 > strongest >> 1 || (candidate >> 1 === strongest >> 1 && candidate > strongest)) strongest = candidate;
        }
      }
      code[y * wide + x] = strongest;
    }
  }
  return {
    ...data, code, height: high, width: wide, value: null, peers: null,
    rows: rows.map((row) => data.rows[row]), columns: columns.map((column) => data.columns[column]),
    firstStep: columns.slice(0, -1).map((first) => data.firstStep[first]),
    lastStep: columns.slice(1).map((end) => data.lastStep[end - 1]),
  };
}
