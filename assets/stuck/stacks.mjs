/** What ranks do: groups of equal stacks, the smallest first, where they are on the grid, and all stacks as one tree. */
import { make } from '../lib/dom.mjs';
import { cellText, frameParts, groupClass, letter } from './messages.mjs';

/** @param {Object} found answer of the server */
export function whatRanksDo({ stacks, num_stacks: all = stacks.length, merged, grid }) {
  const more = all > stacks.length ? make('p', { class: 'quiet' }, `${all - stacks.length} larger groups are not listed.`) : [];
  return make('div', { class: 'stuck-stacks' },
    rankGrid(grid, stacks), stacks.map((stack, index) => stackItem(stack, index, stacks.length)), more,
    merged.length ? mergedTree(merged) : []);
}

function stackItem({ ranks, num_ranks: count, activity, where, frames }, index, total) {
  const mark = make('span', { class: `stuck-letter ${groupClass(index, total)}` }, letter(index));
  const head = [mark, ' ', make('b', {}, ranks), count > 1 ? ` (${count})` : '', `: ${activity}`,
    where ? [' in ', frameText(where)].flat() : []];
  if (!frames.length) return make('p', { class: 'stuck-stack' }, head.flat());
  return make('details', { 'data-key': `stack ${ranks}`, open: index === 0 },
    make('summary', { 'data-key': `stack ${ranks} head` }, head.flat()),
    make('ol', { class: 'stuck-frames' }, frames.map((frame) => make('li', {}, frameText(frame)))));
}

function frameText(frame) {
  const [name, place] = frameParts(frame);
  return [make('code', {}, name), ' ', make('span', { class: 'quiet stuck-file' }, place)];
}

/** A cell per rank with its number and the letter of its group; in large jobs a strip per run of equal ranks. */
function rankGrid(grid, stacks) {
  if (!grid.length) return [];
  const label = `Ranks by what they do: ${stacks.map(({ ranks }, index) => `${letter(index)}: ${ranks}`).join('; ')}`;
  const isLarge = grid.some(({ cells }) => cells.some(({ num_ranks: count }) => count > 1));
  return make('div', { class: `stuck-grid${isLarge ? ' is-large' : ''}`, role: 'img', 'aria-label': label },
    grid.map(({ name, cells }) => make('div', { class: 'stuck-row' },
      grid.length > 1 ? make('span', { class: 'quiet', title: name }, name) : [],
      make('div', { class: 'stuck-cells' }, cells.map((cell) => cellOf(cell, stacks.length, isLarge))))));
}

function cellOf(cell, total, isLarge) {
  const { group } = cell;
  const name = group === null ? 'no stack was read' : `group ${letter(group)}`;
  const element = make('span', { class: groupClass(group, total), title: `${cellText(cell)}: ${name}` },
    isLarge ? '' : [String(cell.rank), make('small', {}, group === null ? '' : letter(group))]);
  if (isLarge) element.style.flexGrow = cell.num_ranks;
  return element;
}

function mergedTree(merged) {
  const isSplit = merged.length > 1 || merged[0].branches.length > 0;
  return make('details', { class: 'stuck-merged', 'data-key': 'merged', open: isSplit },
    make('summary', { 'data-key': 'merged head' }, 'All stacks as one tree, outermost first'),
    make('ul', {}, merged.map((branch) => mergedItem(branch, merged.length > 1))));
}

function mergedItem({ ranks, num_ranks: count, frames, branches }, isPart) {
  const who = `${isPart ? 'only ' : ''}${ranks}${count > 1 ? ` (${count})` : ''}`;
  return make('li', {}, make('b', {}, who),
    make('ol', { class: 'stuck-frames' }, frames.map(({ text, is_users: isUsers }) => make('li', { class: isUsers ? '' : 'is-library' }, frameText(text)))),
    branches.length ? make('ul', {}, branches.map((branch) => mergedItem(branch, true))) : []);
}
