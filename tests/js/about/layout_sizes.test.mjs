import assert from 'node:assert/strict';
import test from 'node:test';

import { orders, product, matchingOrder, sizeOf } from '../../../assets/about/layout_sizes.mjs';

const sizes = (given) => ({ tp: 1, cp: 1, ep: 1, pp: 1, dp: 1, ...given });

test('only axes larger than one can stand in several orders, the usual one first', () => {
  assert.deepEqual(orders(sizes({})), [{ value: 'pp-dp-cp-tp', text: 'one rank' }]);
  assert.deepEqual(orders(sizes({ tp: 2, pp: 4 })), [
    { value: 'pp-tp-dp-cp', text: 'pp, tp' }, { value: 'tp-pp-dp-cp', text: 'tp, pp' }]);
  const all = orders(sizes({ tp: 2, pp: 2, dp: 2, cp: 2, ep: 8 }));
  assert.equal(all.length, 24);
  assert.equal(all[0].value, 'pp-dp-cp-tp');
  assert.equal(new Set(all.map(({ value }) => value)).size, 24);
});

test('an order is kept while sizes change, as far as it says something', () => {
  const given = sizes({ tp: 2, dp: 4 });
  const candidates = orders(given);
  assert.equal(matchingOrder(candidates, 'tp-dp', given), 'tp-dp-pp-cp');
  assert.equal(matchingOrder(candidates, 'pp-tp-cp-dp', given), 'tp-dp-pp-cp');
  assert.equal(matchingOrder(candidates, 'dp_replicate-dp_shard-tp', given), 'dp-tp-pp-cp');
  assert.equal(matchingOrder(candidates, 'nothing', given), 'dp-tp-pp-cp');
});

test('the product says whether the job had so many ranks', () => {
  assert.deepEqual(product(sizes({ tp: 2, dp: 4, ep: 8 }), 8), { total: 8, fits: true, text: '4 x 2 = 8 ranks, as in the job' });
  assert.deepEqual(product(sizes({ tp: 2 }), 8), { total: 2, fits: false, text: '2 of 8 ranks' });
  assert.deepEqual(product(sizes({ tp: 2, pp: 3 }), null), { total: 6, fits: true, text: '3 x 2 = 6 ranks' });
});

test('an invalid size is null', () => {
  assert.equal(sizeOf(' 12 '), 12);
  for (const text of ['', '0', '-2', '1.5', '1e3', '02', 'two', '16777217', '123456789']) assert.equal(sizeOf(text), null);
});
