/**
 * A heat map cut down to the pixels there are: drawn smaller than it is, rows would be left out, and
 * with them perhaps the one slow rank. The strongest cell of a block stays. Pure.
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
 * @param {number} height @param {number} width px there are
 * @returns {import('./geometry.mjs').HeatData} the same data where it fits
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
          const one = data.code[row * data.width + column];
          // codes: 0 none, 1 noise, 2s less, 2s + 1 more with strength s
          if (one >> 1 > strongest >> 1 || (one >> 1 === strongest >> 1 && one > strongest)) strongest = one;
        }
      }
      code[y * wide + x] = strongest;
    }
  }
  return {
    ...data, code, height: high, width: wide, value: null, peers: null,
    rows: rows.map((at) => data.rows[at]), columns: columns.map((at) => data.columns[at]),
    firstStep: columns.slice(0, -1).map((at) => data.firstStep[at]),
    lastStep: columns.slice(1).map((end) => data.lastStep[end - 1]),
  };
}
