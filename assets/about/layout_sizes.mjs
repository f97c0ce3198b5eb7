/** Sizes and order of the parallel axes in the form. Pure. */

/** Axes whose sizes multiply to the world size, slowest first in Megatron's default order. */
export const AXES = ['pp', 'dp', 'cp', 'tp'];
/** Fields of the form, each with its description. */
export const FIELDS = [
  ['tp', 'tensor'], ['cp', 'context'], ['ep', 'experts'], ['pp', 'pipeline'], ['dp', 'data'],
];

/** The largest size that the server takes. */
export const LARGEST = 2 ** 24;

function permutations(names) {
  if (names.length < 2) return [names];
  return names.flatMap((name, index) =>
    permutations([...names.slice(0, index), ...names.slice(index + 1)]).map((rest) => [name, ...rest]));
}

/**
 * Possible orders of axes with these sizes, the default order first; axes of size 1 do not matter.
 * @param {Object<string, number>} sizes
 * @returns {{value: string, text: string}[]} value: all axes, in the form of the server's parameter
 */
export function orders(sizes) {
  const large = AXES.filter((axis) => sizes[axis] > 1);
  const small = AXES.filter((axis) => !large.includes(axis));
  return permutations(large).map((names) => ({
    value: [...names, ...small].join('-'), text: names.join(', ') || 'one rank',
  }));
}

/** The candidate with the axes larger than 1 in the same sequence as in `order`; else the first. */
export function matchingOrder(candidates, order, sizes) {
  const wantedText = order.split('-').map((axis) => axis.replace(/^dp_(replicate|shard)$/, 'dp'))
    .filter((axis, index, all) => sizes[axis] > 1 && all.indexOf(axis) === index).join(', ');
  return (candidates.find(({ text }) => text === wantedText) ?? candidates[0]).value;
}

/**
 * The product of the sizes, as text, and whether it matches the world size.
 * @param {Object<string, number>} sizes @param {?number} worldSize null: unknown
 */
export function product(sizes, worldSize) {
  const factors = AXES.map((axis) => sizes[axis]).filter((size) => size > 1);
  const total = factors.reduce((all, size) => all * size, 1);
  const sum = factors.length > 1 ? `${factors.join(' x ')} = ${total}` : `${total}`;
  if (worldSize === null) return { total, fits: true, text: `${sum} ranks` };
  const fits = total === worldSize;
  return { total, fits, text: fits ? `${sum} ranks, as in the job` : `${sum} of ${worldSize} ranks` };
}

/** The size typed into a field; null if it is not a valid size. @param {string} text */
export function sizeOf(text) {
  return /^[1-9]\d{0,7}$/.test(text.trim()) && Number(text) <= LARGEST ? Number(text) : null;
}
