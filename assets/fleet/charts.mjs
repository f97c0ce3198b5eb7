/** Charts of the page Fleet: elements with sizes in percent, so that texts keep their size on a phone. */
import { make } from '../lib/dom.mjs';
import { count, decades, drawnCauses, hours, parameters, percent, placeOf, runs, stack, ticksTo } from './text.mjs';

const MOST_CAUSES = 6;

const part = (name, value) => {
  const element = make('span', { class: name });
  element.style.setProperty('--part', `${100 * value}%`);
  return element;
};

/** A bar of a share of the greatest, in a cell of a table. */
export const barCell = (share, name = '') => make('td', { class: 'fleet-bar', 'aria-hidden': 'true' }, part(`fleet-fill ${name}`, Math.min(share, 1)));

/** Rows of the histogram of S: bounds, number of runs, their rank-hours. */
export function histogram({ bins }, straggling) {
  const most = Math.max(...bins.map((one) => one.num_runs), 1);
  return bins.map((one) => make('tr', {}, make('th', { scope: 'row' }, one.text),
    make('td', { class: 'number' }, count(one.num_runs)), make('td', { class: 'number' }, hours(one.rank_hours)),
    barCell(one.num_runs / most, one.low !== null && one.low >= straggling ? 'is-straggling' : '')));
}

/** Columns of the periods, each a stack of its causes, with a legend. `periods` may be empty. */
export function columns({ periods, unit }, textOf) {
  const drawn = drawnCauses(periods, MOST_CAUSES);
  const stacks = periods.map((period) => stack(period, drawn));
  const ticks = ticksTo(Math.max(...stacks.map((parts) => parts.reduce((sum, value) => sum + value, 0)), 0.01));
  const top = ticks[ticks.length - 1];
  const bars = periods.map((period, index) => {
    const about = `${unit} from ${period.first}: ${runs(period.num_runs)}, ${percent(stacks[index].reduce((sum, value) => sum + value, 0))} lost`;
    return make('span', { class: 'fleet-column', title: about },
      stacks[index].map((value, cause) => part(`fleet-part cause-${cause < drawn.length ? cause : MOST_CAUSES}`, value / top)));
  });
  const names = [...drawn.map(textOf), ...(stacks.some((parts) => parts[drawn.length] > 1e-9) ? ['other causes'] : [])];
  const legend = names.map((name, index) => make('span', {}, make('i', { class: `cause-${index < drawn.length ? index : MOST_CAUSES}` }), name));
  return [
    make('div', { class: 'fleet-plot', role: 'img', 'aria-label': 'Share of rank-hours lost over time; the table below has the numbers' },
      axis(ticks.map((tick) => [tick / top, percent(tick)]), 'fleet-y'), make('div', { class: 'fleet-columns' }, bars)),
    make('div', { class: 'fleet-x fleet-ends' }, make('span', {}, periods[0].first), periods.length > 1 ? make('span', {}, periods[periods.length - 1].first) : []),
    make('p', { class: 'fleet-legend' }, legend),
  ];
}

/** MFU by number of parameters: a dot for each run, which links to it. */
export function scatter(points, link) {
  const xTicks = decades(points.map((one) => one.parameters));
  const yTicks = ticksTo(Math.max(...points.map((one) => one.mfu)));
  const top = yTicks[yTicks.length - 1];
  const dots = points.map((one) => {
    const dot = link(one.run, `${one.run}: ${parameters(one.parameters)} parameters, MFU ${percent(one.mfu)}, ${count(one.ranks)} ranks`);
    dot.style.left = `${100 * placeOf(one.parameters, xTicks)}%`;
    dot.style.bottom = `${(100 * one.mfu) / top}%`;
    return dot;
  });
  return [
    make('div', { class: 'fleet-plot', 'aria-hidden': 'true' }, axis(yTicks.map((tick) => [tick / top, percent(tick)]), 'fleet-y'),
      make('div', { class: 'fleet-dots' }, dots)),
    make('div', { class: 'fleet-x', 'aria-hidden': 'true' }, xTicks.map((tick) => {
      const label = make('span', {}, parameters(tick));
      label.style.left = `${100 * placeOf(tick, xTicks)}%`;
      return label;
    })),
  ];
}

function axis(ticks, name) {
  return make('div', { class: name, 'aria-hidden': 'true' }, ticks.map(([place, text]) => {
    const label = make('span', {}, text);
    label.style.bottom = `${100 * place}%`;
    return label;
  }));
}
