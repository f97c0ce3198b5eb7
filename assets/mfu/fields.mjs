/** What the reader can set: the peak of a device, and the steps to compare with. */
import { make } from '../lib/dom.mjs';

/** A field for the peak; an empty one takes that of the devices' data sheet. */
export function peakField(app, known) {
  const field = make('input', {
    name: 'peak', inputmode: 'decimal', size: 7, value: app.view.peak ?? '', placeholder: known === null ? 'unknown' : String(known),
    pattern: '[0-9]{1,6}([.][0-9]{1,4})?', 'aria-label': 'peak of one device in TFLOP/s',
    title: 'peak of one device in TFLOP/s, such as 989 or 0.5; empty: by the data sheet of the devices',
  });
  const apply = (event) => {
    event.preventDefault();
    if (form.reportValidity()) app.set({ peak: Number(field.value) > 0 ? field.value : null });
  };
  const form = make('form', { class: 'mfu-fields', on: { submit: apply, change: apply } }, make('label', {}, 'peak ', field, ' TFLOP/s'));
  return form;
}

/** Two fields for the first and the last step of the window to compare with. */
export function againstFields(app, shown) {
  const [low, high] = app.view.against ?? ['', ''];
  const field = (name, value) => make('input', {
    name, inputmode: 'numeric', size: 6, value, required: true, pattern: '[0-9]{1,15}', 'aria-label': `${name} step to compare with`,
  });
  const [first, last] = [field('first', low), field('last', high)];
  const apply = (event) => {
    event.preventDefault();
    last.setCustomValidity(Number(first.value) > Number(last.value) ? 'the last step comes before the first' : '');
    if (form.reportValidity()) app.set({ against: [Number(first.value), Number(last.value)], steps: app.view.steps ?? shown() });
  };
  const form = make('form', { class: 'mfu-fields', on: { submit: apply, input: () => last.setCustomValidity('') } }, [
    make('span', {}, 'compare with steps '), first, make('span', {}, ' to '), last, make('button', {}, 'Compare'),
    app.view.against ? make('button', { type: 'button', value: 'automatic', title: 'look for a decline in all steps', on: { click: () => app.set({ against: null }) } }, 'Automatic') : [],
  ]);
  return form;
}
