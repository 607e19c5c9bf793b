"""Programs of a file as operations of frameworks. A program imports the module of its framework:
``devmod_frameworks.torch``.

docs/design/frameworks.md has the reasons.
"""
