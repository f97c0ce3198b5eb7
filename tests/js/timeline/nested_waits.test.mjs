import assert from 'node:assert/strict';
import { test } from 'node:test';

import { draw } from '../../../assets/timeline/lanes/draw.mjs';
import { NO_REF, Tile } from '../../../assets/timeline/lanes/tile.mjs';
import { makePen, THEME } from './pen.mjs';

const [COMPUTE, COMM, , IDLE, WAIT] = [0, 1, 2, 3, 4];
const KINDS = ['forward', 'tp_comm', 'waiting', 'bubble', 'upstream'];
const geometry = {
  width: 1100, height: 100, left: 100, top: 36, laneHeight: 60, scroll: 0, ranks: [40], window: { begin: 0, end: 1000 },
};

/** A forward pass of the whole window, in which rank 40 waits for rank 41 from 300 to 500. */
function tileOf(detail, { kind = 2, blocks = [] } = {}) {
  const rects = [
    ...(detail === 'nested' ? [{ row: COMPUTE, kind: 0, start: 0, dur: 1000 }, ...blocks]
      : [{ row: COMPUTE, kind: 0, start: 0, dur: 300 }, { row: COMPUTE, kind: 0, start: 500, dur: 500 }]),
    { row: COMM, kind: 1, start: 300, dur: 200 }, { row: IDLE, kind, start: 300, dur: 200, ref: 0 },
    { row: WAIT, kind, start: 300, dur: 200, ref: 0 },
  ];
  const column = (name, missing = 0) => Float64Array.from(rects, (rect) => rect[name] ?? missing);
  const arrays = {
    ...Object.fromEntries(['lane', 'row', 'level', 'kind', 'start', 'dur'].map((name) => [name, column(name)])),
    busy: column('dur'), count: column('count', 1), ref: column('ref', NO_REF), frame: [], wait_rank: [41],
    step: [], step_lane: [], step_begin: [], step_end: [],
    span_lane: [], span_start: [], span_dur: [], span_kind: [], span_microbatch: [], span_name: [],
  };
  return new Tile({ arrays, meta: { from: 0, to: 1000, kinds: KINDS, names: [], lanes: [{ rank: 40 }], detail } });
}

/** What is seen at a time in the middle of the row of compute: colour of the last fill there. */
function seenAt(tile, t, window = geometry.window, shown = {}) {
  const { ctx, painted } = makePen();
  draw(ctx, tile, { ...geometry, window }, THEME, shown);
  const x = geometry.left + (t - window.begin) * (geometry.width - geometry.left) / (window.end - window.begin);
  const y = geometry.top + 16;
  const covers = (one) => one.act === 'fill' && one.x <= x && x < one.x + one.w && one.y <= y && y < one.y + one.h;
  return String(painted.filter(covers).at(-1)?.colour);
}

const HATCH = /^pattern/;

for (const detail of ['innermost', 'nested']) {
  test(`a wait within forward is seen, ${detail}`, () => {
    const tile = tileOf(detail);
    assert.match(seenAt(tile, 400), HATCH);
    assert.equal(seenAt(tile, 200), 'forward');
    assert.equal(seenAt(tile, 700), 'forward');
  });
}

test('it is seen at every zoom, with blocks within forward, and across stages', () => {
  for (const half of [500, 150, 20, 2]) {
    assert.match(seenAt(tileOf('nested'), 400, { begin: 400 - half, end: 400 + half }), HATCH, `${2 * half} ns`);
  }
  const blocks = [0, 1].map((number) => ({ row: COMPUTE, level: 1, kind: 0, start: 500 * number, dur: 500 }));
  assert.match(seenAt(tileOf('nested', { blocks }), 400), HATCH);
  assert.match(seenAt(tileOf('nested', { kind: 4 }), 400), HATCH);
  assert.equal(seenAt(tileOf('nested', { kind: 3 }), 400), 'ink-bubble');
});

test('a wait for the culprit is as red where it is one pixel wide', () => {
  const roles = { culprits: [41], victims: [40], steps: [0, Infinity] };
  const wide = { begin: -99_600, end: 100_400 };
  assert.equal(seenAt(tileOf('nested'), 400, wide, { roles }), 'ink-fault');
  assert.match(seenAt(tileOf('nested'), 400, wide), HATCH, 'of no finding');
});
