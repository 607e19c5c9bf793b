"""The launch path that all backends share: from the arguments of a call to the backend's enqueue.

docs/design/runtime.md has the reasons.
"""
