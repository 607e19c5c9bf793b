"""Devices, streams, events and arrays. docs/design/runtime.md has the reasons."""
