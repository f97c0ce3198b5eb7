"""From a hooked event to a row on disk: clocks, recorder, drain thread, segments, guards.

So many modules because each is imported alone, by hooks that may import nothing else.
"""
