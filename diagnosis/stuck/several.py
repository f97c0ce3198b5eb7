"""Sentences about one rank, said of several: what to do next, and what else it may be."""

from __future__ import annotations

OF_SEVERAL = (
    ("Compare what this rank does with its peers", "Compare what these ranks do with their peers"),
    ("does it wait for a lock", "do they wait for a lock"),
    ("It comes later:", "They come later:"),
    ("It waits for a message", "They wait for a message"),
    ("the rank's recording", "their recording"),
    ("the last lines of that rank's log", "the last lines of those ranks' logs"),
    ("the kernel log of its host", "the kernel logs of their hosts"),
    ("from that rank's host", "from those ranks' hosts"),
    ("nvidia-smi on its host shows whether the", "nvidia-smi on their hosts shows whether a"),
    ("of its data loader", "of their data loaders"),
    ("this rank takes fewer steps", "these ranks take fewer steps"),
    ("the log of that process and of its host", "the logs of these processes and of their hosts"),
    ("without that host", "without those hosts"),
    ("to that process", "to each of these processes"),
)
"""What findings say of one rank, and the same of several."""


def said_of(text: str, num_ranks: int) -> str:
    """A text about one rank, in the plural where there are several."""
    if num_ranks > 1:
        for of_one, of_several in OF_SEVERAL:
            text = text.replace(of_one, of_several)
    return text
