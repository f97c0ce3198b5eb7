"""From a hooked event to a row on disk: clocks, recorder, drain thread, segments, guards."""
