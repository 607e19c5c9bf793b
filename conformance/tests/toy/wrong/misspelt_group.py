"""The name of an entry-point group is misspelt."""

ROWS = ("R1-groups",)
REASON = (
    "devmod-toy 1.0 declares the entry point 'toy' in the group 'devmod.devices', which devmod-core … does not have, so the entry point is "
    "ignored. Did you mean 'devmod.device'?"
)
GROUPS = ("devmod.devices",)
