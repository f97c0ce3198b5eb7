"""One script for each figure of docs/benchmarks.md, run by hand: `python benchmarks/NAME.py`.

Hence so many files. browser.py, timing.py and made_traces.py are what several of them share; larger
ones are packages (accuracy, gpu, abuse_parts).
"""
