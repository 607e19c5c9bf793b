"""Arrays: what all have in common, and those in the memory of the host. docs/design/modules.md has
the reasons.
"""
