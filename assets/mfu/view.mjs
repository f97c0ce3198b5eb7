/** Where the time of the devices went, down to the model FLOPs utilisation. */
import { make } from '../lib/dom.mjs';

export function mount(element) {
  element.replaceChildren(make('p', { class: 'panel sentence' }, make('strong', {}, 'No step is finished yet. '),
    'This section then shows what the time of the devices went to.'));
  return { destroy() {} };
}
