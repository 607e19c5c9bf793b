"""Modules: the base class, the kinds that core implements, and the functions that create and load
them.

docs/design/modules.md has the reasons.
"""
