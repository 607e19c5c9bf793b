"""The registry of backends: claims, discovery, loading, hooks. It imports no module, format or
device.

docs/design/registry.md has the reasons.
"""
