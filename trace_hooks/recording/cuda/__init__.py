"""Times of a CUDA device: events on streams, pinned host memory, copies by the drain thread."""
