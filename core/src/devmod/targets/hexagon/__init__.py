"""The build side of Hexagon."""
