/**
 * What a ready question is asked with: values the user gave, else those of the view. Pure.
 *
 * @typedef {Object} Parameter
 * @property {string} name
 * @property {string} type int, float or text
 * @property {boolean} required
 * @property {string} default
 * @property {string} doc
 */

const HUGE = 10n ** 18n;

/** Value of a parameter that the view gives, '' where it says nothing. @param {string} t0 Unix ns */
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

/** What stands in an empty field. @param {Parameter} parameter */
export function placeholder(parameter) {
  if (parameter.name === 'now_ns') return 'now';
  if (parameter.required) return 'needed';
  if (parameter.default === 'newest') return 'newest';
  if (parameter.default === 'null') {
    if (parameter.name === 'attempt') return 'newest';
    return parameter.doc.includes('default') ? 'default' : 'all';
  }
  if (/^\d+$/.test(parameter.default) && BigInt(parameter.default) > HUGE) return 'last';
  return parameter.default;
}

/** Values by parameter name: given ones first, then the view's. @returns {Object<string, string>} */
export function values(question, view, t0) {
  const found = {};
  for (const { name } of question.parameters) {
    const value = view.args[name] ?? fromView(name, view, t0);
    if (value !== '') found[name] = value;
  }
  return found;
}

/** Names of required parameters without a value. */
export function missing(question, given) {
  return question.parameters
    .filter((p) => p.required && p.name !== 'now_ns' && !given[p.name]).map((p) => p.name);
}

/** Search parameters of api/run/RUN/query. */
export function request(question, given) {
  return Object.fromEntries([
    ['q', question.name], ...Object.entries(given).map(([name, value]) => [`q.${name}`, value])]);
}

/** A word of a POSIX shell. */
export function shellWord(text) {
  return /^[\w./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** The same question for a terminal. */
export function command(folder, question, given, sql) {
  const words = question
    ? [question.name, ...Object.entries(given).map(([name, value]) => `${name}=${value}`)] : [sql];
  return ['rankscope', 'query', folder, ...words].map(shellWord).join(' ');
}
