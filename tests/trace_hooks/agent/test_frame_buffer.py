"""Frames that wait to be sent: the newest of each key, within a bound."""

from __future__ import annotations

import threading

from tests.frame_runs import small_frame
from trace_hooks.agent.frame_buffer import Outbox
from trace_hooks.protocol.frames import Frame


def test_newer_frames_take_the_place_of_older_ones_with_the_same_key() -> None:
    box = Outbox()
    for step in range(3):
        for head in (0, 1):
            box.put(small_frame(step, head))
    box.put(small_frame(0, 0, shard="tp=1"))
    taken = [box.take(0.0) for _ in range(4)]
    assert [(one.step, one.head, one.shard) if one else None for one in taken] == [
        (2, 0, ""),
        (2, 1, ""),
        (0, 0, "tp=1"),
        None,
    ]
    assert box.thinned == 4
    assert box.num_bytes == 0


def test_the_box_is_bounded_and_keeps_what_is_newest() -> None:
    box = Outbox(most_bytes=100)
    for head in range(50):
        box.put(small_frame(0, head, num_bytes=40))
        assert box.num_bytes <= 100
    box.put(small_frame(0, 99, num_bytes=102))
    assert [one.head for one in iter(lambda: box.take(0.0), None)] == [48, 49]
    assert box.thinned == 49


def test_a_wake_ends_the_wait_of_take() -> None:
    box = Outbox()
    taken: list[Frame | None] = []
    waiting = threading.Thread(target=lambda: taken.append(box.take(60.0)))  # type: ignore[arg-type]
    waiting.start()
    box.wake()
    waiting.join(20)
    assert taken == [None]
