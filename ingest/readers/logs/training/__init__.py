"""Steps in logs of training frameworks: loss, gradient norm, learning rate, speed, timers.

A module per framework has `SIGNS`, bytes of which each of its lines has one, and a function
`step_of(text)` that makes a LoggedStep of a line without its prefixes, or None. docs/formats.md
lists what each of them keeps.
"""
