/**
 * The view state and its URL, as in app/view_state.py (tests hold both to the same cases).
 * Pure: no DOM, no history.
 *
 * @typedef {Object} View
 * @property {?string} run
 * @property {string} page
 * @property {?number} attempt
 * @property {?number} rank selected rank
 * @property {number[]} ranks lanes of the timeline
 * @property {?[number, number]} steps first and last, both included
 * @property {?[number, number]} against first and last step that the page Efficiency compares `steps` with, both included
 * @property {?string} peak of one device that the page Efficiency takes, 1e12 FLOP/s
 * @property {?string} bandwidth of the memory of one device that the page Efficiency takes, 1e9 B/s
 * @property {?[number, number]} t window, ns since the run's t0
 * @property {?[number, number, number, number]} span selected on the timeline: rank, row, begin, end
 * @property {?[number, number, number, number]} area of the timeline: begin, end, ranks of the first and last lane
 * @property {number[]} marks times marked on the timeline, ns since the run's t0
 * @property {number[]} pins lanes kept on top
 * @property {boolean} truth planted faults of generated runs are shown
 * @property {?number} replay step that the what-if page replays
 * @property {?number[]} expert selected expert: its layer (-1: without a number), its number in the layer, and the
 *   number of the router where the layer has several
 * @property {?string} metric
 * @property {?string} finding
 * @property {?string} q
 * @property {?string} sql
 * @property {Object<string, string>} args parameters of the saved query
 * @property {Object<string, string>} model what the page Model shows, see model/shared/model_state.mjs
 * @property {Object<string, string>} fleet what the page Fleet shows: its filters and the order of its table
 * @property {Object<string, string>} pipeline changes of the job whose schedules the page What-if predicts
 */

export const MOST_RANKS = 16_384;
const MOST_MARKS = 64;
const LAST_ROW = 4;
const LONGEST = 4000;

/** @returns {View} */
export function emptyView() {
  return {
    run: null, page: 'overview', attempt: null, rank: null, ranks: [], steps: null, against: null, peak: null, bandwidth: null, t: null,
    span: null, area: null, marks: [], pins: [], truth: false, replay: null, expert: null, metric: null, finding: null, q: null, sql: null, args: {}, model: {}, fleet: {}, pipeline: {},
  };
}

const whole = (text) => (/^-?\d{1,16}$/.test(text) && Number.isSafeInteger(Number(text))
  ? Number(text) + 0 : undefined);  // -0 + 0 is 0
const natural = (text) => (whole(text) >= 0 ? whole(text) : undefined);
const plain = (value) => (value === null ? '' : String(value));
const pair = (text) => {
  const [lowText, highText] = text.includes('..')
    ? [text.slice(0, text.indexOf('..')), text.slice(text.indexOf('..') + 2)] : [text, text];
  const [low, high] = [whole(lowText), whole(highText)];
  return high >= low ? [low, high] : undefined;
};
const formatPair = (value) => (value === null ? '' : `${value[0]}..${value[1]}`);
const name = (text) => (/^[\p{L}\p{N}_.:/ -]{1,120}$/u.test(text) ? text : undefined);

function parseRanks(text) {
  const ranks = new Set();
  for (const part of text.split(',')) {
    const dash = part.indexOf('-');
    const low = natural(dash < 0 ? part : part.slice(0, dash));
    const high = dash < 0 ? low : natural(part.slice(dash + 1));
    if (!(high >= low) || ranks.size + high - low >= MOST_RANKS) return undefined;
    for (let rank = low; rank <= high; rank++) ranks.add(rank);
  }
  return [...ranks];
}

/** Ranks as in a URL: consecutive ranks become `0-7`; the order is kept. */
export function formatRanks(ranks) {
  const runs = [];
  for (const rank of ranks) {
    const last = runs[runs.length - 1];
    if (last && rank === last[1] + 1) last[1] = rank;
    else runs.push([rank, rank]);
  }
  return runs.map(([low, high]) => (low === high ? `${low}` : `${low}-${high}`)).join(',');
}

/** `RANK,ROW,BEGIN..END` */
function parseSpan(text) {
  const [rankText, rowText, times, ...rest] = text.split(',');
  const [rank, row, window] = [natural(rankText), natural(rowText ?? ''), pair(times ?? '')];
  return rest.length || rank === undefined || !(row <= LAST_ROW) || !window ? undefined : [rank, row, ...window];
}

/** `BEGIN..END,RANK,RANK` */
function parseArea(text) {
  const [times, firstText, lastText, ...rest] = text.split(',');
  const [window, first, last] = [pair(times), natural(firstText ?? ''), natural(lastText ?? '')];
  return rest.length || !window || first === undefined || last === undefined ? undefined : [...window, first, last];
}

/** `LAYER,EXPERT` or `LAYER,EXPERT,ROUTER` */
function parseExpert(text) {
  const [layerText, ...rest] = text.split(',');
  const numbers = [layerText === '-1' ? -1 : natural(layerText), ...rest.map(natural)];
  return numbers.includes(undefined) || numbers.length < 2 || numbers.length > 3 ? undefined : numbers;
}

function parseTimes(text) {
  const times = [...new Set(text.split(',').map(whole))];
  return times.length > MOST_MARKS || times.includes(undefined) ? undefined : times;
}

const formatSpan = (span) => (span === null ? '' : `${span[0]},${span[1]},${span[2]}..${span[3]}`);
const formatArea = (area) => (area === null ? '' : `${area[0]}..${area[1]},${area[2]},${area[3]}`);
const formatExpert = (expert) => (expert === null ? '' : expert.join(','));
const positive = (text) => (/^\d{1,6}(\.\d{1,4})?$/.test(text) && Number(text) > 0 ? text : undefined);
const flag = (text) => (text === '1' ? true : text === '0' ? false : undefined);

const ARGUMENTS = { q: 'args', m: 'model', f: 'fleet', p: 'pipeline' };
const ARGUMENT = /^([qmfp])\.([A-Za-z]\w{0,39})$/;
export const FLEET = 'fleet';
const FIELDS = {
  attempt: [natural, plain],
  rank: [natural, plain],
  ranks: [parseRanks, formatRanks],
  steps: [pair, formatPair],
  against: [pair, formatPair],
  peak: [positive, plain],
  bandwidth: [positive, plain],
  t: [pair, formatPair],
  span: [parseSpan, formatSpan],
  area: [parseArea, formatArea],
  marks: [parseTimes, (times) => times.join(',')],
  pins: [parseRanks, formatRanks],
  truth: [flag, (value) => (value ? '1' : '')],
  replay: [natural, plain],
  expert: [parseExpert, formatExpert],
  metric: [name, plain],
  finding: [name, plain],
  q: [name, plain],
  sql: [(text) => cut(text), plain],
};

/** Percent-decoding that accepts malformed text like Python's unquote; decodeURIComponent would throw. */
function unquoted(text) {
  const safe = text.replace(/[+&]/g, (sign) => `%${sign.charCodeAt(0).toString(16)}`);
  return new URLSearchParams(`v=${safe}`).get('v');
}

/** The first LONGEST characters, counted as Python counts them. */
const cut = (text) => (text.length <= LONGEST ? text : [...text].slice(0, LONGEST).join(''));

/**
 * View of a URL. A malformed field gets its default, an unknown path is the start page.
 * @param {string} path @param {string} search @param {string} base
 * @param {{name: string}[]} pages those of the page's configuration
 * @returns {View}
 */
export function parseUrl(path, search, base, pages) {
  const view = emptyView();
  const parts = (path.startsWith(base) ? path.slice(base.length) : path).split('/').filter(Boolean);
  if (parts.length === 1 && parts[0] === FLEET) return { ...view, page: FLEET, fleet: fleetOf(search) };
  if (parts.length < 2 || parts[0] !== 'run') return view;
  view.run = unquoted(parts[1]);
  if (pages.some((page) => page.name === parts[2])) view.page = parts[2];
  for (const [key, text] of new URLSearchParams(search)) {
    if (text === '') continue;
    const argument = ARGUMENT.exec(key);
    if (argument) view[ARGUMENTS[argument[1]]][argument[2]] = cut(text);
    else if (Object.hasOwn(FIELDS, key)) {
      const value = FIELDS[key][0](text);
      if (value !== undefined) view[key] = value;
    }
  }
  return view;
}

/** Values of the fields f.NAME; the last of two counts. */
function fleetOf(search) {
  const values = {};
  for (const [key, text] of new URLSearchParams(search)) {
    const argument = ARGUMENT.exec(key);
    if (text !== '' && argument?.[1] === 'f') values[argument[2]] = cut(text);
  }
  return values;
}

/** Percent-encoding as Python's quote does it. */
function quoted(text, safe = '') {
  return encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)
    .replace(/%2C/g, (c) => (safe.includes(',') ? ',' : c));
}

/** @param {View} view @returns {string} path and query below `base` */
export function formatUrl(view, base = '') {
  if (view.run === null && view.page === FLEET) {
    const own = Object.entries(view.fleet).filter(([, text]) => text !== '').map(([key, text]) => `f.${key}=${quoted(text, ',')}`);
    return own.length ? `${base}/${FLEET}?${own.join('&')}` : `${base}/${FLEET}`;
  }
  if (view.run === null) return `${base}/`;
  const query = Object.entries(FIELDS)
    .map(([key, [, format]]) => [key, format(view[key])])
    .concat(Object.entries(ARGUMENTS).flatMap(([prefix, field]) => (
      Object.entries(view[field]).map(([key, value]) => [`${prefix}.${key}`, value]))))
    .filter(([, text]) => text !== '')
    .map(([key, text]) => `${key}=${quoted(text, ',')}`);
  const path = `${base}/run/${quoted(view.run)}/${view.page}`;
  return query.length ? `${path}?${query.join('&')}` : path;
}
