/**
 * Frames of ranks that each have a part of the vocabulary (trace_hooks/sources/vocabulary_parts.py), put
 * together: probabilities and losses over all of it. Pure.
 *
 * Columns of a part: its greatest logits, the logarithm of the sum of exp of all its logits, the logit of
 * the true next token, NaN where another rank has it; labels of those columns likewise.
 */

const OF_PARTS = / of (\d{1,6})$/;

/** How many parts there are. @param {import('../shared/frame.mjs').Frame} part */
const partsThereAre = ({ shard }) => Number(OF_PARTS.exec(shard)?.[1] ?? NaN);

/**
 * Why the parts do not make a whole, '': they do.
 * @param {import('../shared/frame.mjs').Frame[]} parts
 */
export function whyNoWhole(parts) {
  if (!parts.length) return 'no part of it was kept';
  const [first] = parts;
  const number = partsThereAre(first);
  const here = new Set(parts.map(({ shard }) => shard)).size;
  if (here !== number || parts.length !== number) return `of ${number} parts ${here} are here`;
  const isSame = parts.every((one) => one.step === first.step && one.rows === first.rows && one.columns > 2
    && one.row_begin === first.row_begin && one.row_every === first.row_every && one.labels.length === one.rows * one.columns);
  return isSame ? '' : 'the parts are not all of one step, or not of the same tokens';
}

/**
 * Frames like `probabilities` and `token_loss` of one rank that has all of the vocabulary; losses null: the
 * true token of some row is known and its logit is not.
 * @param {import('../shared/frame.mjs').Frame[]} parts for which whyNoWhole is ''
 * @returns {{probabilities: import('../shared/frame.mjs').Frame, losses: ?import('../shared/frame.mjs').Frame}}
 */
export function whole(parts) {
  const [first] = parts;
  const columns = Math.max(...parts.map((one) => one.columns - 2));
  const made = Array.from({ length: first.rows }, (_, row) => wholeRow(parts, row, columns));
  const frame = { ...first, shard: 'whole', texts: [], names: [] };
  const isKnown = made.every(({ truth, loss }) => truth === null || !Number.isNaN(loss));
  return {
    probabilities: { ...frame, what: 'probabilities', columns, labels: made.flatMap(({ top }) => top.map(({ label }) => label)),
      values: Float32Array.from(made.flatMap(({ top }) => top.map(({ share }) => share))) },
    losses: isKnown ? { ...frame, what: 'token_loss', columns: 1, labels: made.map(({ truth }) => truth), values: Float32Array.from(made, ({ loss }) => loss) } : null,
  };
}

function wholeRow(parts, row, columns) {
  const at = ({ columns: width }, column) => row * width + (column < 0 ? width + column : column);
  const sum = logSumExp(parts.map((one) => one.values[at(one, -2)]));
  const all = parts.flatMap((one) => Array.from({ length: one.columns - 2 }, (_, column) => (
    { label: one.labels[at(one, column)], share: Math.exp(one.values[at(one, column)] - sum) })));
  const top = all.sort((a, b) => b.share - a.share).slice(0, columns);
  const truth = parts.map((one) => one.labels[at(one, -1)]).find(({ id, text }) => id !== null || text !== null) ?? null;
  const logit = parts.map((one) => one.values[at(one, -1)]).find((value) => !Number.isNaN(value)) ?? NaN;
  return { top, truth, loss: sum - logit };
}

function logSumExp(values) {
  const greatest = Math.max(...values);
  return Number.isFinite(greatest) ? greatest + Math.log(values.reduce((sum, value) => sum + Math.exp(value - greatest), 0)) : greatest;
}
