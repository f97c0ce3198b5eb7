/**
 * Parameters of a saved query: values that the user gave, else those of the view. Pure.
 *
 * @typedef {Object} Parameter
 * @property {string} name
 * @property {string} type int, float or text
 * @property {boolean} required
 * @property {string} default
 * @property {string} doc
 */

const HUGE = 10n ** 18n;
const TYPES = { int: 'whole number', float: 'number', text: 'text' };
const DEFAULT = '; default: ';  // in the text of a parameter, before what an empty field means

/** Value of a parameter from the view, '' if the view has none. @param {string} t0 Unix ns */
export function fromView(name, view, t0) {
  switch (name) {
    case 'attempt': return view.attempt === null ? '' : String(view.attempt);
    case 'rank': return view.rank === null ? '' : String(view.rank);
    case 'step_min': return view.steps ? String(view.steps[0]) : '';
    case 'step_max': return view.steps ? String(view.steps[1]) : '';
    case 'from_ns': return view.t ? String(BigInt(t0) + BigInt(view.t[0])) : '';
    case 'to_ns': return view.t ? String(BigInt(t0) + BigInt(view.t[1])) : '';
    default: return '';
  }
}

/** Placeholder of an empty field. @param {Parameter} parameter */
export function placeholder(parameter) {
  if (parameter.name === 'now_ns') return 'now';
  if (parameter.required) return 'required';
  if (parameter.default === 'newest') return 'newest';
  if (parameter.default === 'null') {
    if (parameter.name === 'attempt') return 'newest';
    return parameter.doc.split(DEFAULT)[1] ?? 'all';
  }
  if (/^\d+$/.test(parameter.default) && BigInt(parameter.default) > HUGE) return 'last';
  return parameter.default;
}

/** Documentation of a parameter: 'first step wanted (whole number; default: 0)'. @param {Parameter} parameter */
export function describe(parameter) {
  const facts = `${TYPES[parameter.type]}; ${parameter.required ? 'required' : `default: ${placeholder(parameter)}`}`;
  const [doc] = parameter.doc.split(DEFAULT);
  return doc ? `${quotesOfCode(doc)} (${facts})` : facts;
}

/** `code` of a documentation in quotation marks: “code”. */
export const quotesOfCode = (text) => text.replace(/`([^`]*)`/g, '“$1”');

/** Values by parameter name: the user's first, then the view's. @returns {Object<string, string>} */
export function values(savedQuery, view, t0) {
  const given = {};
  for (const { name } of savedQuery.parameters) {
    const value = view.args[name] ?? fromView(name, view, t0);
    if (value !== '') given[name] = value;
  }
  return given;
}

/** Names of required parameters without a value. */
export function missing(savedQuery, given) {
  return savedQuery.parameters
    .filter((p) => p.required && p.name !== 'now_ns' && !given[p.name]).map((p) => p.name);
}

/** Search parameters of api/run/RUN/query. */
export function request(savedQuery, given) {
  return Object.fromEntries([
    ['q', savedQuery.name], ...Object.entries(given).map(([name, value]) => [`q.${name}`, value])]);
}

/** A word of a POSIX shell. */
export function shellWord(text) {
  return /^[\w./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** The same query as a shell command. */
export function command(folder, savedQuery, given, sql) {
  const words = savedQuery
    ? [savedQuery.name, ...Object.entries(given).map(([name, value]) => `${name}=${value}`)] : [sql];
  return ['rankscope', 'query', folder, ...words].map(shellWord).join(' ');
}
