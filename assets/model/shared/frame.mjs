/**
 * Frames (values of a tensor in one step) in the wire format of the hooks: RSF1, length of the header, JSON, numbers.
 *
 * @typedef {Object} Frame header of a frame, and
 * @property {Float32Array} values row by row @property {number} rows @property {number} columns
 * @property {Label[]} labels of the columns, or of each value; may be empty
 * @property {string[]} texts of the labels
 * @property {(string|number)[]} names of the tokens by position: text, else id; empty if unknown
 * @typedef {{id: ?number, text: ?string}} Label
 */

const MAGIC = 'RSF1';
let halves = null;

/** Values of all 65,536 float16 numbers: older browsers have no Float16Array. */
function halfTable() {
  if (halves) return halves;
  halves = new Float32Array(1 << 16);
  for (let bits = 0; bits < 1 << 16; bits++) {
    const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
    const size = exponent === 0 ? fraction * 2 ** -24
      : exponent < 31 ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction ? NaN : Infinity;
    halves[bits] = bits & 0x8000 ? -size : size;
  }
  return halves;
}

/** @param {ArrayBuffer} buffer @returns {Frame} throws an Error for anything else */
export function decodeFrame(buffer) {
  const bytes = new Uint8Array(buffer);
  if (bytes.length < 8 || new TextDecoder().decode(bytes.subarray(0, 4)) !== MAGIC) throw new Error('The server sent no frame.');
  const size = new DataView(buffer).getUint32(4, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + size)));
  const columns = header.shape[header.shape.length - 1];
  const count = header.shape.reduce((product, length) => product * length, 1);
  const labels = labelsOf(header.labels);
  const texts = labels.map(({ id, text }) => text ?? String(id));
  const names = header.what === 'attention' ? texts : [];
  return { ...header, values: numbers(buffer, 8 + size, header, count), rows: count / columns, columns, labels, texts, names };
}

function numbers(buffer, offset, { dtype, scale, zero }, count) {
  const values = new Float32Array(count);
  if (dtype === 'uint8') {
    const stored = new Uint8Array(buffer, offset, count);
    for (let i = 0; i < count; i++) values[i] = zero + scale * stored[i];
    return values;
  }
  if (dtype === 'float32') return new Float32Array(buffer.slice(offset, offset + 4 * count));
  const table = halfTable();
  const stored = new Uint16Array(buffer.slice(offset, offset + 2 * count));
  for (let i = 0; i < count; i++) values[i] = zero + scale * table[stored[i]];
  return values;
}

/** Entries of a JSON list: text, id, [id, text], or null for a missing token. @returns {Label[]} */
function labelsOf(labels) {
  let entries;
  try {
    entries = JSON.parse(labels ?? '[]');
  } catch {
    return [];
  }
  if (!Array.isArray(entries)) return [];
  return entries.map((entry) => {
    if (Array.isArray(entry)) return { id: Number(entry[0]), text: String(entry[1]) };
    return typeof entry === 'number' ? { id: entry, text: null } : { id: null, text: entry === null ? null : String(entry) };
  });
}

/** Key of a frame: a newer frame with the same key replaces it, whatever its step. */
export const frameKey = ({ layer, head, name, shard }) => (head >= 0 ? `${layer}.${head}` : `${layer}~${name}~${shard}`);

/** Parts of a key made by frameKey. */
export function partsOfKey(key) {
  const match = /^(-?\d+)\.(\d+)$/.exec(key);
  if (match) return { layer: Number(match[1]), head: Number(match[2]), name: null, shard: null };
  const [layer, name = '', shard = ''] = key.split('~');
  return /^-?\d+$/.test(layer) ? { layer: Number(layer), head: -1, name, shard } : null;
}

/** "layer 3, head 5" or "layer 3, layers.3.mlp tp=1" */
export function frameText({ layer, head, name, shard }) {
  const where = layer < 0 ? name : `layer ${layer}`;
  if (head >= 0) return `${where}, head ${head}`;
  const more = [layer < 0 ? '' : name, shard === 'whole' ? '' : shard].filter(Boolean).join(' ');
  return more ? `${where}, ${more}` : where;
}

/** Whether the values of a kind are shares from 0 to 1; the values of other kinds have a sign. */
export const isShare = (what) => what === 'attention' || what === 'probabilities';

/** Number of the token that a row of a frame stands for. */
export const tokenOf = ({ row_begin: begin, row_every: every }, row) => begin + row * every;

/** Name of a token: 4 "the", 4 #1023, or 4 where only its position is known. */
export function tokenText(frame, token) {
  const name = frame.names[token];
  return name === undefined ? String(token) : `${token} ${nameText(name)}`;
}

/** "the", or #1023 for an id. */
export const nameText = (name) => (typeof name === 'number' ? `#${name}` : JSON.stringify(name));

/** The same for an axis, where space is small; blanks and line ends are visible. */
export const axisText = (name) => (typeof name === 'number' ? `#${name}` : JSON.stringify(name).slice(1, -1).replaceAll(' ', '·'));

/**
 * One frame minus another, if both have the same rows and columns.
 * @param {Frame} frame @param {Frame} other @param {string} where the other frame is from, as text
 * @returns {{frame: Frame} | {problem: string}}
 */
export function difference(frame, other, where) {
  const shape = ({ rows, columns }) => `${rows} × ${columns}`;
  if (shape(frame) !== shape(other)) return { problem: `not compared with ${where}: it is ${shape(other)} there and ${shape(frame)} here` };
  if (frame.row_begin !== other.row_begin || frame.row_every !== other.row_every) return { problem: `not compared with ${where}: its rows are different tokens there` };
  return { frame: { ...frame, values: frame.values.map((value, i) => value - other.values[i]), less: where } };
}
