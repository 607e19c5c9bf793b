"""It registers no load_from_bytes."""

ROWS = ("R1",)
REASON = "nothing is registered as devmod.load_from_bytes.toy"
WITHOUT = (("devmod.load_from_bytes", "toy"),)
