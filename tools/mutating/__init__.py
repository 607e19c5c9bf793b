"""What `tools/mutations.py` runs: the rules by which it changes a source, and the lines that each
test executes.
"""
