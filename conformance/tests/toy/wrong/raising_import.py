"""The import raises."""

ROWS = ("R1-keys", "R11", "R38-saved")
REASON = (
    "PluginError: devmod.create.toy is broken: devmod-toy 1.0: importing raising_import failed (OSError: libtoy.so.1 is not there). "
    "Install it again (pip install --force-reinstall devmod-toy==1.0), or report it to its publisher"
)
raise OSError("libtoy.so.1 is not there")


def create(code, fmt, fmap, source): ...
