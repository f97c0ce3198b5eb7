"""What was seen becomes stretches: joined while it is the same, written while it lasts."""

from trace_hooks.sources.startup.stack_phases import Place
from trace_hooks.sources.startup.stretches import PIECE_NS, Stretches

MODEL, READ = Place("model", "a"), Place("restore", "b")
STEP = PIECE_NS // 10


def seen(*places):
    written = []
    stretches = Stretches(lambda begin, end, place: written.append((begin, end, place)), 0)
    for number, place in enumerate(places, 1):
        stretches.see(number * STEP, place)
    stretches.close()
    return written


def test_time_belongs_to_what_is_seen_at_its_end():
    assert seen(MODEL, MODEL, READ) == [(0, 2 * STEP, MODEL), (2 * STEP, 3 * STEP, READ)]


def test_where_nothing_is_seen_nothing_is_written():
    assert seen(MODEL, None, None, READ) == [(0, STEP, MODEL), (3 * STEP, 4 * STEP, READ)]


def test_a_long_stretch_is_written_in_pieces_without_gaps():
    rows = seen(*[READ] * 35)
    assert [row[0] for row in rows[1:]] == [row[1] for row in rows[:-1]]
    assert rows[0] == (0, PIECE_NS, READ)
    assert rows[-1][1] == 35 * STEP


def test_of_a_day_few_pieces_are_written():
    day_ns = 24 * 3600 * 10**9
    assert len(seen(*[READ] * (day_ns // STEP))) < 200
