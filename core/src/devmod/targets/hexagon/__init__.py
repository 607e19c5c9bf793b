"""The target spec of Hexagon, and the reader of its architectures."""
