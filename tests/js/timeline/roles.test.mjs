import assert from 'node:assert/strict';
import { test } from 'node:test';

import { draw } from '../../../assets/timeline/lanes/draw.mjs';
import { hasRed } from '../../../assets/timeline/lanes/fault_time.mjs';
import { NO_REF, Tile } from '../../../assets/timeline/lanes/tile.mjs';
import { makePen, THEME } from './pen.mjs';

const KINDS = ['forward', 'waiting', 'upstream'];
const [IDLE_ROW] = [3];

/** Ranks 4 and 5, steps 6 (0 to 500) and 7 (500 to 1000); rank 4 waits for rank 5 in both. */
function tileOf(waitKind = 1) {
  const rects = [
    { lane: 0, row: 0, kind: 0, start: 0, dur: 200 }, { lane: 0, row: 0, kind: 0, start: 500, dur: 200 },
    { lane: 0, row: IDLE_ROW, kind: waitKind, start: 200, dur: 300, ref: 0 },
    { lane: 0, row: IDLE_ROW, kind: waitKind, start: 700, dur: 300, ref: 1 },
    { lane: 1, row: 0, kind: 0, start: 0, dur: 1000 },
  ];
  const column = (name, missing = 0) => Float64Array.from(rects, (rect) => rect[name] ?? missing);
  const arrays = {
    ...Object.fromEntries(['lane', 'row', 'level', 'kind', 'start', 'dur'].map((name) => [name, column(name)])),
    busy: column('dur'), count: column('count', 1), ref: column('ref', NO_REF), frame: [],
    wait_rank: Float64Array.of(5, 5), span_lane: [], span_start: [], span_dur: [], span_kind: [], span_microbatch: [],
    step: Int32Array.of(6, 7, 6, 7), step_lane: Int32Array.of(0, 0, 1, 1),
    step_begin: Float64Array.of(0, 500, 0, 500), step_end: Float64Array.of(500, 1000, 500, 1000),
  };
  return new Tile({ arrays, meta: { from: 0, to: 1000, kinds: KINDS, names: [], lanes: [{ rank: 4 }, { rank: 5 }] } });
}

const geometry = {
  width: 1100, height: 160, left: 100, top: 36, laneHeight: 60, scroll: 0, ranks: [4, 5], window: { begin: 0, end: 1000 },
};

function reds(shown, tile = tileOf(), window = geometry.window) {
  const { ctx, painted } = makePen();
  draw(ctx, tile, { ...geometry, window }, THEME, shown);
  return painted.filter(({ colour }) => String(colour).includes('ink-fault'));
}

const roles = { culprits: [5], victims: [4], steps: [7, Infinity] };

test('without a finding nothing is red, whichever rank is selected', () => {
  for (const rank of [null, 4, 5]) assert.deepEqual(reds({ rank }), [], `rank ${rank}`);
});

test('a selected victim is outlined in the accent colour, and only its culprit is red', () => {
  const { ctx, painted } = makePen();
  draw(ctx, tileOf(), geometry, THEME, { rank: 4, roles });
  const laneOf = ({ y }) => Math.floor((y - geometry.top + 3) / geometry.laneHeight);
  const labels = painted.filter(({ x, colour }) => x < geometry.left && colour === 'ink-fault');
  assert.deepEqual([...new Set(labels.map(laneOf))], [1]);
  assert.ok(painted.some((one) => one.act === 'stroke' && one.colour === 'ink-link' && laneOf(one) === 0));
});

test('a wait for the culprit is red only in steps of the finding', () => {
  const waits = reds({ rank: 4, roles }).filter(({ x }) => x >= geometry.left);
  assert.ok(waits.length > 0);
  assert.ok(waits.every(({ x }) => x >= 800), 'step 6 lies before it');
  assert.deepEqual(reds({ rank: 5, roles: { ...roles, steps: [1, 5] } }), [], 'the finding is over');
  assert.deepEqual(reds({ rank: 5, roles }, tileOf(), { begin: 0, end: 480 }), [], 'only step 6 is in sight');
});

test('who waits for the schedule across stages is not red, unless the finding lists it', () => {
  const inLanes = (shown) => reds(shown, tileOf(2)).filter(({ x }) => x >= geometry.left).length;
  assert.equal(inLanes({ rank: 5, roles: { ...roles, victims: [] } }), 0);
  assert.ok(inLanes({ rank: 5, roles }) > 0);
});

test('the legend names red only where something may be red', () => {
  assert.equal(hasRed(tileOf(), roles, { begin: 0, end: 1000 }), true);
  assert.equal(hasRed(tileOf(), roles, { begin: 0, end: 480 }), false, 'only step 6 is in sight');
  assert.equal(hasRed(tileOf(), { ...roles, culprits: [] }, { begin: 0, end: 1000 }), false);
});
