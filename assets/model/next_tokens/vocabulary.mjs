/**
 * Merges frames of ranks that each hold a part of the vocabulary: probabilities and losses over all of it.
 * Pure.
 *
 * Columns of a part: its greatest logits, the logarithm of the sum of exp of all its logits, the logit of
 * the true next token, NaN if another rank has it; labels of those columns likewise.
 */

const OF_PARTS = / of (\d{1,6})$/;

/** Number of parts of the vocabulary. @param {import('../shared/frame.mjs').Frame} part */
const numParts = ({ shard }) => Number(OF_PARTS.exec(shard)?.[1] ?? NaN);

/**
 * Why the parts are not the whole vocabulary, '' if they are.
 * @param {import('../shared/frame.mjs').Frame[]} parts
 */
export function whyIncomplete(parts) {
  if (!parts.length) return 'no part of it was recorded';
  const [first] = parts;
  const number = numParts(first);
  const here = new Set(parts.map(({ shard }) => shard)).size;
  if (here !== number || parts.length !== number) return `of ${number} parts ${here} are here`;
  const isSame = parts.every((part) => part.step === first.step && part.rows === first.rows && part.columns > 2
    && part.row_begin === first.row_begin && part.row_every === first.row_every && part.labels.length === part.rows * part.columns);
  return isSame ? '' : 'the parts are not all of one step, or not of the same tokens';
}

/**
 * Frames like `probabilities` and `token_loss` of a rank that holds the whole vocabulary; losses are null if
 * the true token of some row is known but its logit is not.
 * @param {import('../shared/frame.mjs').Frame[]} parts for which whyIncomplete is ''
 * @returns {{probabilities: import('../shared/frame.mjs').Frame, losses: ?import('../shared/frame.mjs').Frame}}
 */
export function mergedVocabulary(parts) {
  const [first] = parts;
  const columns = Math.max(...parts.map((part) => part.columns - 2));
  const rows = Array.from({ length: first.rows }, (_, row) => mergedRow(parts, row, columns));
  const frame = { ...first, shard: 'whole', texts: [], names: [] };
  const isKnown = rows.every(({ truth, loss }) => truth === null || !Number.isNaN(loss));
  return {
    probabilities: { ...frame, what: 'probabilities', columns, labels: rows.flatMap(({ top }) => top.map(({ label }) => label)),
      values: Float32Array.from(rows.flatMap(({ top }) => top.map(({ share }) => share))) },
    losses: isKnown ? { ...frame, what: 'token_loss', columns: 1, labels: rows.map(({ truth }) => truth), values: Float32Array.from(rows, ({ loss }) => loss) } : null,
  };
}

function mergedRow(parts, row, columns) {
  const indexOf = ({ columns: width }, column) => row * width + (column < 0 ? width + column : column);
  const sum = logSumExp(parts.map((part) => part.values[indexOf(part, -2)]));
  const all = parts.flatMap((part) => Array.from({ length: part.columns - 2 }, (_, column) => (
    { label: part.labels[indexOf(part, column)], share: Math.exp(part.values[indexOf(part, column)] - sum) })));
  const top = all.sort((a, b) => b.share - a.share).slice(0, columns);
  const truth = parts.map((part) => part.labels[indexOf(part, -1)]).find(({ id, text }) => id !== null || text !== null) ?? null;
  const logit = parts.map((part) => part.values[indexOf(part, -1)]).find((value) => !Number.isNaN(value)) ?? NaN;
  return { top, truth, loss: sum - logit };
}

function logSumExp(values) {
  const greatest = Math.max(...values);
  return Number.isFinite(greatest) ? greatest + Math.log(values.reduce((sum, value) => sum + Math.exp(value - greatest), 0)) : greatest;
}
