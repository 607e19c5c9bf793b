"""create returns None."""

ROWS = ("R11",)
REASON = "PluginError: devmod.create.toy is broken: devmod-toy 1.0 returned NoneType, not a devmod.Module. Report it to its publisher, or uninstall it"


def create(code, fmt, fmap, source):
    return None
