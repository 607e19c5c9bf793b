"""The target spec of Metal."""
