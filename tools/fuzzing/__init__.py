"""The fuzzing harness: readers with the properties that they must have, seeds, mutators and the
process that runs them.

`tools/fuzz.py` runs it for a given time (``make fuzz``); the tests in `tests/fuzz` run a fixed part
of it.
"""
