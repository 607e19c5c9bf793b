"""A format has no file loader."""

ROWS = ("R2-formats",)
REASON = "devmod.load_from_file.toybin is not registered, but toy is"
WITHOUT = (("devmod.load_from_file", "toybin"),)
