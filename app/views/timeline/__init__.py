"""Data of the page Timeline: lanes, tiles of spans, sums of an area, waits between ranks."""
