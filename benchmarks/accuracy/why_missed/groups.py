"""What the reasons of missed faults are about, to count them."""

from __future__ import annotations

GROUPS = (
    ("merged with another", "found, and merged with another finding or dropped for it"),
    ("of standing still", "late by less than is asked of a rank that stands still"),
    ("first steps on", "there from the first steps on: what is usual is not known"),
    ("first step on, or about", "a rank whose role is not known: it may be its share of the work"),
    ("usually swing by", "late by no more than ranks of this job swing by"),
    ("times the swing", "steps longer by too little, or by no more than they swing"),
    ("In nine of ten", "late by too little in one of ten steps"),
    ("in nine of ten", "late by too little in one of ten steps"),
    ("it is late in", "late in fewer than four of five steps"),
    ("not the last", "another rank comes later in these steps"),
    ("holds waiting", "waiting for others is part of the timer that shows it"),
    ("no one operation", "no one operation makes up what compute takes longer"),
    ("a step counts from", "longer by less than a step needs to count"),
    ("saves take", "saves that cost less than is worth a finding"),
    ("those around them", "rare steps that do not stand apart"),
)
"""Words of a reason, and what is counted under them; the first that fits."""


def group_of(why: str) -> str:
    """What a reason is counted under."""
    return next((title for words, title in GROUPS if words in why), "another")
