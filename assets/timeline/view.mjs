/** The timeline as a mounted view: canvas, toolbar, tooltip, details, states. */
import { listen } from './input.mjs';
import { serverLoader, textLoader } from './load.mjs';
import { makeTooltip } from './tooltip.mjs';
import { Timeline } from './timeline.mjs';

/**
 * @param {HTMLElement} element @param {Object} app
 * @param {{compact?: boolean, height?: number, data?: string}} options data: base64 of a tile, then
 *   no server is asked
 */
export function mount(element, app, options) {
  element.classList.add('timeline');
  const canvas = document.createElement('canvas');
  canvas.tabIndex = 0;
  const body = document.createElement('div');
  body.className = 'tl-body';
  body.append(canvas);
  element.replaceChildren(body);
  const timeline = new Timeline(
    canvas, app, options.data ? textLoader(options.data) : serverLoader(app), options);
  const tooltip = makeTooltip(timeline, body);
  const stop = listen(timeline, {});
  const watchSize = new ResizeObserver(() => timeline.resize());
  watchSize.observe(body);
  const watchTheme = new MutationObserver(() => timeline.retheme());
  watchTheme.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
  timeline.resize();
  timeline.open();
  return {
    timeline,
    destroy() {
      stop();
      watchSize.disconnect();
      watchTheme.disconnect();
      tooltip.destroy();
      timeline.destroy();
    },
  };
}
