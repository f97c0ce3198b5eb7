/** Where the time of the devices goes, down to the model FLOPs utilisation, and since when more of it is lost. */
import { make } from '../lib/dom.mjs';
import { makeFetcher } from '../lib/fetcher.mjs';
import { asSentence, cannotBeShown, sentence } from '../lib/sentences.mjs';
import { changePanel } from './change.mjs';
import { againstFields, peakField } from './fields.mjs';
import { waterfallPanel } from './waterfall.mjs';

const NEWS_MS = 5000;

const nothing = (why) => sentence('status', make('strong', {}, `${why} `),
  'This section shows what the time of the devices goes to, step by step.');

/** What the answers depend on. */
const wanted = ({ attempt, steps, against, peak, finding }) => ({
  attempt, steps: steps?.join('..') ?? null, against: against?.join('..') ?? null, peak, finding,
});

export function mount(element, app) {
  let asked = wanted(app.view);
  const stop = new AbortController();
  const places = [make('div'), make('div')];
  places[0].append(sentence('status', 'Adding up what the devices did.'));
  places[1].append(sentence('status', 'Looking for a decline.'));
  element.replaceChildren(...places);

  /** Replace a panel; the button or field that had the focus gets it again. */
  function put(place, panel) {
    const active = place.contains(document.activeElement) ? document.activeElement : null;
    const [name, value] = [active?.getAttribute('name'), active?.value];
    if (name) return;  // someone is typing
    place.replaceChildren(panel);
    if (active) [...place.querySelectorAll('button')].find((button) => button.value === value)?.focus();
  }

  const fields = () => (app.pages ? againstFields(app, () => shown) : []);
  const fetched = (place, get, failed) => makeFetcher(async (signal) => {
    try {
      const panel = await get(signal);
      if (!signal.aborted) put(place, panel);
    } catch (error) {
      if (error.name !== 'AbortError') put(place, failed(error));
    }
  }, NEWS_MS);

  let shown = null;
  const fetchers = [
    fetched(places[0], async (signal) => {
      const { attempt, steps, peak, finding } = asked;
      const answer = await app.json(app.api('mfu', { attempt, steps, peak, finding }), signal);
      const fall = answer.waterfall;
      if (!fall) return nothing(answer.why);
      shown = [fall.first_step, fall.last_step];
      return waterfallPanel(answer, app, app.pages ? peakField(app, fall.peak_tflops) : []);
    }, (error) => cannotBeShown('MFU', error)),
    fetched(places[1], async (signal) => {
      const { attempt, steps, against, peak } = asked;
      const window = against ? { steps, against } : {};
      const answer = await app.json(app.api('mfu/change', { attempt, peak, ...window }), signal);
      return changePanel(answer, app, fields());
    }, ({ message }) => changePanel({ sentence: asSentence(message), comparison: null }, app, fields(), 'alert')),
  ];

  function follow() {
    const next = wanted(app.view);
    if (JSON.stringify(next) === JSON.stringify(asked)) return;
    asked = next;
    document.activeElement?.closest?.('.mfu-fields')?.contains(document.activeElement) && document.activeElement.blur();
    fetchers.forEach((fetcher) => fetcher.soon());
  }

  app.addEventListener('run', () => fetchers.forEach((fetcher) => fetcher.news()), { signal: stop.signal });
  app.addEventListener('view', follow, { signal: stop.signal });
  fetchers.forEach((fetcher) => fetcher.now());
  return {
    destroy() {
      stop.abort();
      fetchers.forEach((fetcher) => fetcher.stop());
    },
  };
}
