/** Sentences and values of the page Machines. Pure. */
import { valueText } from '../lib/canvas/samples.mjs';

const WHICH = ['', 'least ', 'most '];

/** What a cell shows: its value, or that of the device which is furthest from the other hosts. */
export function shownText(data, at, { unit }) {
  const which = data.code[at] >= 2 ? data.which[at] : 0;
  return `${WHICH[which]}${valueText([data.value, data.least, data.most][which][at], unit)}`;
}

/** The devices of a cell together; '' where there is one. */
export function rangeText(data, at, { unit }) {
  const [least, most] = [data.least[at], data.most[at]];
  if (Number.isNaN(least) || least === most) return '';
  return `${valueText(least, unit)} to ${valueText(most, unit)}, mean ${valueText(data.value[at], unit)}`;
}

/** Lines of the tooltip of a cell. */
export function cellLines(data, { row, column }) {
  const { title, unit, doc, kind } = data.columns[column];
  const at = row * data.columns.length + column;
  const lines = [`${data.hosts[row] || 'unknown host'}: ${title}`, shownText(data, at, data.columns[column])];
  const range = rangeText(data, at, data.columns[column]);
  if (range) lines.push(`${kind === 'port' ? 'over time' : `its ${kind} devices`}: ${range}`);
  const middle = data.medians[column];
  if (data.compares && middle !== null) lines.push(`median host: ${valueText(middle, unit)}`);
  return doc ? [...lines, doc] : lines;
}

/** What the map shows. */
export function aboutMap(data) {
  const [count, all] = [data.hosts.length, data.num_hosts].map((number) => number.toLocaleString('en'));
  const hosts = count === all ? `${all} host${all === '1' ? '' : 's'}` : `the ${count} of ${all} hosts that differ most`;
  if (!data.compares) return `${hosts}: too few to compare with each other`;
  return `${hosts}; coloured where a host is further from the median host than noise`;
}

/** Hosts that differ most: the strongest colours first. @returns {{host: string, column: number, row: number}[]} */
export function furthestCells(data, most) {
  const count = data.columns.length;
  const found = [];
  data.code.forEach((code, at) => {
    if (code >= 2) found.push({ code, row: Math.floor(at / count), column: at % count });
  });
  found.sort((a, b) => (b.code >> 1) - (a.code >> 1));
  return found.slice(0, most).map(({ row, column }) => ({ host: data.hosts[row], row, column }));
}

/** What to do where there are no samples. */
export const NO_SAMPLES = [
  'No sample of a machine is recorded.',
  'Jobs with the hooks record their machines by themselves, unless TRACE_HOOKS_TELEMETRY=0 is set; the first '
  + 'samples arrive about ten seconds after the job has begun. Runs recorded with older hooks have none.',
  'Files of dcgm-exporter, node_exporter or W&B can be imported together with a trace: '
  + 'rankscope import trace/ gpus.json --into runs.',
];
