"""load_from_bytes is not registered."""

ROWS = ("R1-keys",)
REASON = "devmod.load_from_bytes.toy is not registered"
WITHOUT = (("devmod.load_from_bytes", "toy"),)
