"""An alias of the target has no loader."""

ROWS = ("R2-aliases",)
REASON = (
    "NotRegisteredError: devmod.load_from_bytes.toyish is not registered: devmod-toy 1.0 is installed and does not provide it. "
    "To upgrade it: pip install --upgrade devmod-toy"
)
WITHOUT = (("devmod.load_from_bytes", "toyish"),)
