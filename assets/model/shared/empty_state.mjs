/** Shown when nothing was recorded: how to record it, and what it would show. */
import { make } from '../../lib/dom.mjs';

const SHOWS = [
  ['Outputs', 'residual stream, attention and MLP of each layer: RMS, largest magnitude, share of zeros', 'non-finite values'],
  ['Gradients', 'of each layer, as the optimizer gets them', 'RMS at the size of Adam\'s epsilon, 1e-8'],
  ['Weights, updates', 'of each layer; how much a step changes them', 'nothing; an update / weight ratio of about 1e-3 is usual'],
  ['Attention heads', 'largest logit and entropy of each head', 'logits above 100, entropy towards 0'],
];

/** @param {boolean} canRecord whether hooks run in the job now */
export function noStatistics(canRecord) {
  const lead = canRecord
    ? 'Nothing yet: this job records no statistics of its tensors. It can record them from its next start.'
    : 'This run has no statistics of the model\'s tensors.';
  return make('section', { class: 'panel model-nothing' }, [
    make('p', { class: 'message' }, make('strong', {}, lead)),
    make('p', { class: 'quiet' }, 'Start the job with one of these, for statistics every 100 steps:'),
    make('pre', {}, 'TRACE_HOOKS_STATISTICS=100 python -m trace_hooks train.py\n\nth.start("runs", model=model, statistics=100)'),
    make('div', { class: 'scroll' }, make('table', {}, [
      make('caption', { class: 'visually-hidden' }, 'What is recorded'),
      make('thead', {}, make('tr', {}, ['recorded', 'what it says', 'what raises an alarm'].map((name) => make('th', { scope: 'col' }, name)))),
      make('tbody', {}, SHOWS.map((row) => make('tr', {}, row.map((text) => make('td', {}, text))))),
    ])),
  ]);
}

/** Shown by Inspect for a run without frames. */
export function noFrames() {
  return make('section', { class: 'panel model-nothing' }, [
    make('p', {}, make('strong', {}, 'Nothing was watched in this run.')),
    make('p', { class: 'quiet' }, 'Attention and activations are content: the hooks record them only in a job that allows content, and only what a watch requests. '
      + 'The training script sets a watch, or an operator sets one on this page while the job runs:'),
    make('pre', {}, 'TRACE_HOOKS_ALLOW_CONTENT=1 python -m trace_hooks train.py\n\ntracer.inspect({"what": "attention", "layers": [0], "every": 10})'),
  ]);
}
