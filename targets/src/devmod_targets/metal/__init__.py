"""The build side of Metal."""
