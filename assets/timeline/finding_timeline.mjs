/** The timeline of a finding: its lanes and steps, unless the URL names others. */
import { withDefaults } from '../lib/with_defaults.mjs';
import { mount as mountTimeline } from './view.mjs';

/** @param {{ranks?: number[], steps?: [number, number], rank?: number, attempt?: number}} options */
export function mount(element, app, options) {
  const { ranks = [], steps = null, rank = null, attempt = null, ...rest } = options;
  const appOfFinding = withDefaults(app, { ranks, steps, rank, attempt });
  return mountTimeline(element, appOfFinding, { ...rest, ofFinding: steps !== null });
}
