"""Metal, as core must know it."""
