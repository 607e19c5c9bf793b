"""load_from_bytes returns a fallback."""

from devmod_toy import TARGET

import devmod
from devmod.backend import decode

ROWS = ("R24-runs", "R12", "R19-same")
REASON = (
    "PluginError: devmod.load_from_bytes.toy is broken: devmod-toy 1.0 returned a fallback; a fallback exists at build time only. "
    "Report it to its publisher, or uninstall it"
)


def load_from_bytes(data):
    import os

    fmt, fmap, code = decode(TARGET, data)
    os.environ["DEVMOD_COMPILE_FORCE_FALLBACK"] = "1"
    try:
        return devmod.create_with_fallback("toy", code, fmt, fmap)
    finally:
        del os.environ["DEVMOD_COMPILE_FORCE_FALLBACK"]
