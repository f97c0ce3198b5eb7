import assert from 'node:assert/strict';
import test from 'node:test';
import { emptyView } from '../../../assets/lib/view_state.mjs';
import { blockText } from '../../../assets/heat/offline_heat.mjs';
import { pooledTo } from '../../../assets/heat/pooling.mjs';
import { fileName, shareUrl } from '../../../assets/share/view.mjs';

function map(height, width) {
  return {
    code: new Uint8Array(height * width).fill(1), height, width, order: 'rank', value: new Float32Array(1),
    rank: Uint32Array.from({ length: height }, (_, rank) => rank),
    rows: Uint32Array.from({ length: height + 1 }, (_, row) => row),
    columns: Uint32Array.from({ length: width + 1 }, (_, column) => column),
    firstStep: Float64Array.from({ length: width }, (_, step) => 10 + step),
    lastStep: Float64Array.from({ length: width }, (_, step) => 10 + step),
    legend: { metric: { name: 'slowdown', unit: 'x', decimals: 2 } },
  };
}

test('a lone slow rank stays when the map is drawn smaller than it is', () => {
  const data = map(400, 1000);
  data.code[77 * 1000 + 903] = 2 * 100 + 1;
  data.code[76 * 1000 + 903] = 2 * 3;
  const small = pooledTo(data, 376, 300);
  assert.ok(small.height <= 376 && small.width <= 300);
  const at = [...small.code].flatMap((code, i) => (code > 1 ? [i] : []));
  assert.equal(at.length, 1);
  const [row, column] = [Math.floor(at[0] / small.width), at[0] % small.width];
  assert.ok(small.rows[row] <= 77 && small.rows[row + 1] > 77);
  assert.ok(small.firstStep[column] <= 913 && small.lastStep[column] >= 913);
  assert.deepEqual([small.rows.at(-1), small.columns.at(-1), small.lastStep.at(-1), small.value], [400, 1000, 1009, null]);
});

test('a map that fits is drawn as it is', () => {
  const data = map(8, 14);
  assert.equal(pooledTo(data, 300, 800), data);
});

test('what was not recorded does not hide what was', () => {
  const data = map(2, 2);
  data.code.set([0, 0, 0, 1]);
  assert.deepEqual([...pooledTo(data, 1, 1).code], [1]);
  data.code.set([0, 0, 0, 0]);
  assert.deepEqual([...pooledTo(data, 1, 1).code], [0]);
  data.code.set([4, 5, 2, 1]);
  assert.deepEqual([...pooledTo(data, 1, 1).code], [5]);
});

test('blocks say who, when and how far', () => {
  const data = { ...map(2, 2), value: Float32Array.from([1.01, 1.53, NaN, 1]) };
  const block = { ranks: [0, 0], steps: [11, 11], rows: [0, 0], column: 1, code: 201 };
  assert.match(blockText(data, block), /^rank 0, step 11: 1\.53/);
  assert.equal(blockText(data, { ...block, ranks: [0, 31], steps: [11, 14] }), 'rank 0 to 31, step 11 to 14: more than the peers');
  assert.match(blockText({ ...data, value: null }, { ...block, code: 0 }), /not recorded/);
  assert.match(blockText({ ...data, value: null }, { ...block, code: 1 }), /within noise/);
});

test('the route of a view and the name of its file', () => {
  const view = { ...emptyView(), run: 'a/b<', page: 'timeline', rank: 5, steps: [1, 2], q: 'steps', args: { top: '1' } };
  assert.equal(shareUrl(view, '/p'), '/p/api/run/a%2Fb%3C/share?page=timeline&rank=5&steps=1..2');
  assert.equal(shareUrl({ ...emptyView(), run: 'a' }, ''), '/api/run/a/share?page=overview');
  assert.equal(fileName('attachment; filename="rankscope-a.html"'), 'rankscope-a.html');
  assert.equal(fileName(null), 'rankscope.html');
});
