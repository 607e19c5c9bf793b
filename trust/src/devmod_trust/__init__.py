"""Signatures of ``.devmod`` files and the policies that say which files may be used. docs/design/trust.md has the reasons."""
