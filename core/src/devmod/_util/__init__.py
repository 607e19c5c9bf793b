"""Files, caches, logging and names. Of devmod it imports errors alone. docs/design/registry.md has
the reasons.
"""
