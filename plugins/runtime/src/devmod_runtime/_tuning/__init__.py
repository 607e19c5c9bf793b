"""Tuned functions: the choice among their variants, and their calls."""
