"""The compiler of the Metal shading language."""
