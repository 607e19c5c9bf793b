"""Devices, streams, events and arrays."""
