/** Sizes and order of the parallel axes, as the form has them. Pure. */

/** Axes whose sizes multiply to the world size, slowest first in Megatron's default order. */
export const AXES = ['pp', 'dp', 'cp', 'tp'];
/** What stands in the form, and what it says of each. */
export const FIELDS = [
  ['tp', 'tensor'], ['cp', 'context'], ['ep', 'experts'], ['pp', 'pipeline'], ['dp', 'data'],
];

function permutations(names) {
  if (names.length < 2) return [names];
  return names.flatMap((name, at) =>
    permutations([...names.slice(0, at), ...names.slice(at + 1)]).map((rest) => [name, ...rest]));
}

/**
 * Orders in which axes of these sizes can stand, the usual one first; axes of size 1 make none.
 * @param {Object<string, number>} sizes
 * @returns {{value: string, text: string}[]} value: all axes, as the server takes it
 */
export function orders(sizes) {
  const large = AXES.filter((axis) => sizes[axis] > 1);
  const small = AXES.filter((axis) => !large.includes(axis));
  return permutations(large).map((names) => ({
    value: [...names, ...small].join('-'), text: names.join(', ') || 'one rank',
  }));
}

/** Of `found` the order in which the larger axes stand as in `order`; else the first. */
export function sameOrder(found, order, sizes) {
  const wanted = order.split('-').map((axis) => axis.replace(/^dp_(replicate|shard)$/, 'dp'))
    .filter((axis, at, all) => sizes[axis] > 1 && all.indexOf(axis) === at).join(', ');
  return (found.find(({ text }) => text === wanted) ?? found[0]).value;
}

/**
 * What the sizes make, in words, and whether it can be.
 * @param {Object<string, number>} sizes @param {?number} worldSize null: unknown
 */
export function product(sizes, worldSize) {
  const factors = AXES.map((axis) => sizes[axis]).filter((size) => size > 1);
  const made = factors.reduce((all, size) => all * size, 1);
  const sum = factors.length > 1 ? `${factors.join(' x ')} = ${made}` : `${made}`;
  if (worldSize === null) return { made, fits: true, text: `${sum} ranks` };
  const fits = made === worldSize;
  return { made, fits, text: fits ? `${sum} ranks, as the job had` : `${sum} of ${worldSize} ranks` };
}

/** A size typed into a field; null for what is none. @param {string} text */
export function sizeOf(text) {
  return /^[1-9]\d{0,7}$/.test(text.trim()) ? Number(text) : null;
}
