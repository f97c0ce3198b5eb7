import assert from 'node:assert/strict';
import { test } from 'node:test';

import { placeTip } from '../../../assets/lib/canvas/tooltip.mjs';
import { aim, makeCamera, pick, project } from '../../../assets/grid/camera.mjs';
import { groupMembers, outward, plateAt, platesOf, tickAt, tickSpacing, titleAt } from '../../../assets/grid/labels.mjs';
import { coordinateIndex, FLAGS, markRanks, neighbour, outlinedVictims, place, rowLength, UNKNOWN } from '../../../assets/grid/layout.mjs';
import { rankSentences } from '../../../assets/grid/messages.mjs';

const MARGIN = { left: 50, right: 40, top: 10, bottom: 40 };

/** Ranks 0.. in order pp, dp, tp. */
function layoutOf(pp, dp, tp) {
  const count = pp * dp * tp;
  const places = {
    rank: new Uint32Array(count), host: new Uint32Array(count), pp: new Uint16Array(count),
    dp: new Uint16Array(count), cp: new Uint16Array(count).fill(UNKNOWN), tp: new Uint16Array(count),
  };
  for (let i = 0; i < count; i++) {
    places.rank[i] = i;
    places.host[i] = Math.floor(i / 8);
    places.tp[i] = i % tp;
    places.dp[i] = Math.floor(i / tp) % dp;
    places.pp[i] = Math.floor(i / tp / dp);
  }
  return { places, meta: { axes: { pp, dp, tp }, reason: null } };
}

function aimed(placed, width, height) {
  return aim(makeCamera(placed), placed.size, width, height, MARGIN);
}

for (const [pp, dp, tp] of [[2, 2, 2], [12, 128, 8], [1, 8, 1], [1, 1536, 8], [16, 1, 1], [4, 512, 1]]) {
  for (const [width, height] of [[660, 380], [360, 320], [300, 700]]) {
    test(`pp ${pp} dp ${dp} tp ${tp} fits ${width} x ${height}`, () => {
      const { places, meta } = layoutOf(pp, dp, tp);
      const placed = place(places, meta);
      const camera = aimed(placed, width, height);
      const seen = new Set();
      for (let i = 0; i < places.rank.length; i++) {
        const [x, y, z] = placed.positions.subarray(3 * i, 3 * i + 3);
        seen.add(`${x}/${y}/${z}`);
        for (const corner of [-0.5, 0.5]) {
          const [px, py] = project(camera, x + corner, y + corner, z + corner, [0, 0]);
          assert.ok(px >= MARGIN.left - 1 && px <= width - MARGIN.right + 1, `x ${px}`);
          assert.ok(py >= MARGIN.top - 1 && py <= height - MARGIN.bottom + 1, `y ${py}`);
        }
      }
      assert.equal(seen.size, places.rank.length, 'every rank has a place of its own');
    });
  }
}

test('in the first view every rank can be hit, and the one hit is the one drawn there', () => {
  const { places, meta } = layoutOf(4, 6, 3);
  const placed = place(places, meta);
  const camera = aimed(placed, 900, 600);
  for (let i = 0; i < places.rank.length; i++) {
    const [x, y, z] = placed.positions.subarray(3 * i, 3 * i + 3);
    const [px, py] = project(camera, x, y + 0.5, z + 0.3, [0, 0]);  // on its upper side
    assert.equal(pick(camera, placed.positions, px, py), i);
  }
});

test('the nearer of two ranks on one ray is hit, from either side; next to them none', () => {
  const positions = Float32Array.of(0, 0, -2, 0, 0, 2);
  const camera = makeCamera({ flat: false, size: [1, 1, 5] });
  camera.yaw = 0;
  camera.pitch = 0.01;
  aim(camera, [1, 1, 5], 400, 400, MARGIN);
  const [x, y] = project(camera, 0, 0, 0, [0, 0]);
  assert.equal(pick(camera, positions, x, y), 1);
  camera.yaw = Math.PI;
  aim(camera, [1, 1, 5], 400, 400, MARGIN);
  assert.equal(pick(camera, positions, x, y), 0);
  assert.equal(pick(camera, positions, 1, 1), -1);
});

test('looking straight down works, too', () => {
  const { places } = layoutOf(1, 16, 1);
  const placed = place(places, { axes: {}, reason: 'unknown' });
  assert.equal(placed.flat, true);
  const camera = aimed(placed, 400, 300);
  for (let i = 0; i < 16; i++) {
    const [px, py] = project(camera, ...placed.positions.subarray(3 * i, 3 * i + 3), [0, 0]);
    assert.equal(pick(camera, placed.positions, px, py), i);
  }
});

test('without a layout hosts are kept together', () => {
  const { places } = layoutOf(1, 24, 1);
  const { positions } = place(places, { axes: {}, reason: 'unknown' });
  for (let i = 0; i < 24; i++) {
    const first = 8 * Math.floor(i / 8);
    assert.equal(positions[3 * i + 2], positions[3 * first + 2], 'one row per host');
    assert.ok(Math.abs(positions[3 * i] - positions[3 * first] - 1.35 * (i - first)) < 1e-4);
  }
});

test('a very long axis is folded, others are not', () => {
  assert.equal(rowLength(128, 12, 8), 128);
  assert.equal(rowLength(2, 2, 2), 2);
  assert.ok(rowLength(1536, 1, 8) < 200);
});

test('arrows move along an axis and stop at its end', () => {
  const { places } = layoutOf(2, 3, 2);
  const index = coordinateIndex(places);
  assert.equal(neighbour(places, index, 0, 'tp', 1), 1);
  assert.equal(neighbour(places, index, 0, 'dp', 1), 2);
  assert.equal(neighbour(places, index, 0, 'pp', 1), 6);
  assert.equal(neighbour(places, index, 0, 'dp', -1), 0);
  assert.equal(neighbour(places, index, 4, 'dp', 1), 4);
  assert.equal(neighbour(places, index, 0, 'cp', 1), 0);
});

test('the groups of the selected rank are marked in three ways; culprit and victims always differ', () => {
  const { places } = layoutOf(2, 2, 2);
  const flags = markRanks(new Uint8Array(8), places, 5, new Set([5]), new Set([4, 7]));
  assert.equal(flags[5], FLAGS.selected | FLAGS.culprit);
  assert.equal(flags[4], FLAGS.tp | FLAGS.victim);
  assert.equal(flags[7], FLAGS.dp | FLAGS.victim);
  assert.equal(flags[1], FLAGS.pp);
  assert.deepEqual([0, 2, 3, 6].map((i) => flags[i]), [0, 0, 0, 0]);
  assert.deepEqual(groupMembers(places, 5, 'pp'), [1, 5]);
});

test('where thousands wait, none of them is outlined', () => {
  const few = new Set([4, 7]);
  assert.equal(outlinedVictims(few), few);
  assert.equal(outlinedVictims(new Set(Array(5000).keys())).size, 0);
});

test('the group of experts of the selected rank is marked within its replicas', () => {
  const { places, meta } = layoutOf(2, 4, 1);
  assert.deepEqual(groupMembers(places, 1, 'ep'), []);
  places.ep = Uint16Array.from([0, 1, 0, 1, 0, 1, 0, 1]);
  places.ep_group = Uint16Array.from([0, 0, 1, 1, 2, 2, 3, 3]);
  const flags = markRanks(new Uint8Array(8), places, 3, new Set(), new Set());
  assert.deepEqual([...flags].slice(0, 4), [FLAGS.dp, FLAGS.dp, FLAGS.dp | FLAGS.ep, FLAGS.selected]);
  assert.deepEqual(groupMembers(places, 3, 'ep'), [2, 3]);
  const values = { legend: { metric: {} }, steps: null, code: [], peers: [] };
  const layout = { ...meta, experts: { ep: 2 }, hosts: [] };
  const [, where] = rankSentences(3, { places, layout, values, roles: { culprits: new Set(), victims: new Set() } });
  assert.match(where, /dp 3.*ep 1/);
});

test('axes stand on sides that are seen, from wherever one looks', () => {
  const { places, meta } = layoutOf(2, 4, 3);
  const placed = place(places, meta);
  for (const yaw of [-2.5, -0.3, 0.4, 2]) {
    const camera = makeCamera(placed);
    camera.yaw = yaw;
    aim(camera, placed.size, 700, 500, MARGIN);
    for (const { name, ticks } of placed.axes) {
      for (const { at } of ticks) {
        const [px, py] = project(camera, ...outward(placed, at, name, camera), [0, 0]);
        assert.equal(pick(camera, placed.positions, px, py), -1, `${name} at yaw ${yaw} lies beside the cubes`);
      }
    }
  }
});

test('ticks keep their distance', () => {
  assert.equal(tickSpacing(2, 100, 26), 1);
  assert.equal(tickSpacing(128, 640, 26), 8);
  assert.equal(tickSpacing(12, 20, 14), 8);
});

test('sentences about a rank: coordinates, value, peers, role in the finding', () => {
  const { places, meta } = layoutOf(2, 2, 2);
  const shown = {
    places, layout: { ...meta, hosts: ['node0'] }, roles: { culprits: new Set([5]), victims: new Set([4]) },
    values: {
      legend: { metric: { title: 'Slowdown', unit: 'x', decimals: 2 } }, code: [1, 1, 1, 1, 1, 255, 1, 0],
      value: [1, 1, 1, 1, 1, 1.5, 1, NaN], peers: [1, 1, 1, 1, 1, 1, 1, NaN],
    },
  };
  assert.deepEqual(rankSentences(5, shown), [
    'rank 5', 'pp 1, dp 0, tp 1', 'host node0', 'Slowdown 1.50 x', "peers' median 1.00 x", 'named as culprit',
  ]);
  assert.deepEqual(rankSentences(4, shown).slice(-2), ['within noise', 'waits for the culprit']);
  assert.deepEqual(rankSentences(7, shown).slice(-1), ['Slowdown not recorded']);
  const stepless = { ...shown, values: { ...shown.values, steps: null } };
  assert.deepEqual(rankSentences(7, stepless), ['rank 7', 'pp 1, dp 1, tp 1', 'host node0']);
});

test('a tip stays inside of its stage, whatever it says', () => {
  const tip = { offsetWidth: 150, offsetHeight: 124, style: {} };
  placeTip(tip, { x: 300, y: 330 }, 650, 380);
  assert.deepEqual(tip.style, { left: '314px', top: '256px' });
  placeTip(tip, { x: 600, y: 20 }, 650, 380);
  assert.deepEqual(tip.style, { left: '436px', top: '32px' });
  placeTip(tip, { x: 100, y: 60 }, 160, 90);
  assert.deepEqual(tip.style, { left: '0px', top: '0px' });
});

test('the plate of a rank stays inside the canvas', () => {
  const canvas = { width: 350, height: 320 };
  assert.deepEqual(plateAt([180, 100], 5, 24, canvas), [180, 83]);
  assert.deepEqual(plateAt([180, 20], 5, 24, canvas), [180, 10]);
  assert.deepEqual(plateAt([180, -30], 5, 24, canvas), [180, -47], 'out of sight with its rank');
  assert.deepEqual(plateAt([3, 100], 5, 24, canvas), [26, 83]);
  assert.deepEqual(plateAt([349, 100], 5, 24, canvas), [324, 83]);
});

test('plates of neighbouring ranks do not cover each other', () => {
  const canvas = { width: 600, height: 320 };
  const widthOf = (text) => 6 * text.length;
  const ringAt = (rank, x) => ({ rank, at: [x, 100], radius: 5 });
  const row = [...Array(9).keys()].map((rank) => ringAt(rank, 40 + 14 * rank));
  const plates = platesOf([row[4], ...row.filter(({ rank }) => rank !== 4), ringAt(60, 500)], widthOf, canvas);
  assert.deepEqual(plates.map(({ text }) => text), ['rank 4 and 8 more', 'rank 60'], 'the first one is named');
  const apart = platesOf([ringAt(1, 100), ringAt(2, 160)], widthOf, canvas);
  assert.deepEqual(apart.map(({ text }) => text), ['rank 1', 'rank 2']);
});

test('a title that has no room beside its axis stands below its numbers', () => {
  const camera = { width: 350, height: 300 };
  assert.deepEqual(titleAt([200, 150], [0.9, 0.4], 'left', 40, 160, camera), [223.4, 160.4]);
  assert.deepEqual(titleAt([320, 150], [0.9, 0.4], 'left', 40, 160, camera), [306, 184], 'at the right edge');
  assert.deepEqual(titleAt([200, 150], [0, 1], 'center', 40, 160, camera), [180, 184]);
});

test('the number of a tick at the edge is not cut', () => {
  assert.equal(tickAt(345, 'left', 14, 350), 334);
  assert.equal(tickAt(5, 'right', 14, 350), 16);
  assert.equal(tickAt(348, 'center', 14, 350), 341);
  assert.equal(tickAt(100, 'left', 14, 350), 100);
  assert.equal(tickAt(380, 'left', 14, 350), 380, 'out of sight with its cube');
});
