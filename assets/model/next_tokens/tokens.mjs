/** Tokens of a sequence, and the probabilities of the token after each. Pure. */

/** Names by position from a frame `tokens`: texts, else ids; empty without a frame. */
export function namesOf(frame) {
  if (!frame) return [];
  return frame.labels.length ? frame.labels.map(({ id, text }) => text ?? id) : [...frame.values];
}

/**
 * @typedef {import('../shared/frame.mjs').Label} Label
 * @typedef {Object} Next what comes after a token
 * @property {number} token position @property {?number} loss -log p of the true next token
 * @property {?Label} truth @property {(Label & {share: number, isTrue: boolean})[]} top most probable first
 */

const isSame = (a, b) => b !== null && (a.id !== null && b.id !== null ? a.id === b.id : a.text === b.text);

/**
 * Rows of both frames by position; either may be missing.
 * @param {?import('../shared/frame.mjs').Frame} probabilities @param {?import('../shared/frame.mjs').Frame} losses
 * @returns {Next[]}
 */
export function nextTokens(probabilities, losses) {
  const byToken = new Map();
  const rowAt = (frame, row) => {
    const token = frame.row_begin + row * frame.row_every;
    if (!byToken.has(token)) byToken.set(token, { token, loss: null, truth: null, top: [] });
    return byToken.get(token);
  };
  for (let row = 0; row < (losses?.rows ?? 0); row++) {
    const loss = losses.values[row];
    if (Number.isNaN(loss)) continue;
    Object.assign(rowAt(losses, row), { loss, truth: losses.labels[row] ?? null });
  }
  for (let row = 0; row < (probabilities?.rows ?? 0); row++) {
    const next = rowAt(probabilities, row);
    const first = row * probabilities.columns;
    next.top = Array.from({ length: probabilities.columns }, (_, column) => {
      const label = probabilities.labels[first + column] ?? { id: null, text: null };
      return { ...label, share: probabilities.values[first + column], isTrue: isSame(label, next.truth) };
    });
  }
  return [...byToken.values()].sort((a, b) => a.token - b.token);
}

/** Mean loss of the rows that have one; null without any. */
export function meanLoss(rows) {
  const losses = rows.map(({ loss }) => loss).filter((loss) => loss !== null);
  return losses.length ? losses.reduce((sum, loss) => sum + loss, 0) / losses.length : null;
}
