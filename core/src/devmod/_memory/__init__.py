"""Devices and arrays: memory here and there, and how other libraries see it."""
