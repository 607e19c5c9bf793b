"""The formats: a module's bytes, the ``.devmod`` file, raw payload files with their metadata.
docs/design/files.md has the reasons.
"""
