/** Sentences about the steps of the strip. Pure. */
import { stepsText } from '../lib/value_text.mjs';

/** Sentences about a point and the marks and stretches at it, for the tooltip and screen readers. */
export function pointSentences(points, index, marks, stretches) {
  const [first, last, step] = [points.first[index], points.last[index], points.step[index]];
  const ms = points.ms[index];
  const parts = [`Step ${step}: ${Number.isNaN(ms) ? 'not finished' : milliseconds(ms)}`];
  if (last > first) parts[0] += `, the slowest of ${first} to ${last}`;
  for (const mark of marks) parts.push(mark.step === step ? mark.text : `Step ${mark.step}: ${mark.text}`);
  for (const stretch of stretches) if (stretch.first <= step && step <= stretch.last) parts.push(stretch.text);
  return parts;
}

/** Sentences one after the other: each with a full stop. */
export const paragraph = (sentences) => sentences.map((text) => (text.endsWith('.') ? text : `${text}.`)).join(' ');

/** "Step times of steps 0 to 13, median 2,271 ms." */
export function stripLabel(range, medianMs) {
  return `Step times of ${stepsText(range)}, median ${medianMs === null ? 'unknown' : milliseconds(medianMs)}.`;
}

/** "1,077 ms", "12.3 s" */
export function milliseconds(ms) {
  if (ms >= 10000) return `${(ms / 1000).toFixed(1)} s`;
  return `${ms >= 10 ? Math.round(ms).toLocaleString('en') : ms.toFixed(1)} ms`;
}

/** Marks without the faults that somebody planted, unless the view asks for the truth. */
export const shownMarks = (marks, truth) => (truth ? marks : marks.filter(({ kind }) => kind !== 'fault'));

/** "steps 10 to 29, the newest 20" @param {?{steps: [number, number], why: string}} scope */
export const scopeText = (scope) => (scope === null ? '' : `${stepsText(scope.steps)}${scope.why ? `, ${scope.why}` : ''}`);
