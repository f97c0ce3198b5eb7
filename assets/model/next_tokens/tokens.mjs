/** Tokens of a sequence, and what the model gave the next one of each. Pure. */

/** Names by position: texts, or else ids, of a frame `tokens`; none without one. */
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
  const found = new Map();
  const rowAt = (frame, row) => {
    const token = frame.row_begin + row * frame.row_every;
    if (!found.has(token)) found.set(token, { token, loss: null, truth: null, top: [] });
    return found.get(token);
  };
  for (let row = 0; row < (losses?.rows ?? 0); row++) {
    const loss = losses.values[row];
    if (Number.isNaN(loss)) continue;
    Object.assign(rowAt(losses, row), { loss, truth: losses.labels[row] ?? null });
  }
  for (let row = 0; row < (probabilities?.rows ?? 0); row++) {
    const next = rowAt(probabilities, row);
    const first = row * probabilities.columns;
    next.top = Array.from({ length: probabilities.columns }, (_, at) => {
      const label = probabilities.labels[first + at] ?? { id: null, text: null };
      return { ...label, share: probabilities.values[first + at], isTrue: isSame(label, next.truth) };
    });
  }
  return [...found.values()].sort((a, b) => a.token - b.token);
}

/** Mean loss of the rows that have one; null: none has. */
export function meanLoss(rows) {
  const losses = rows.map(({ loss }) => loss).filter((loss) => loss !== null);
  return losses.length ? losses.reduce((sum, loss) => sum + loss, 0) / losses.length : null;
}
