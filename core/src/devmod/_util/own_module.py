"""Files of the user that hide installed packages: the script's folder is first in sys.path."""

from __future__ import annotations


def own_module(*names: str, error: BaseException | None = None) -> str:
    """Return the sentences about a file of the user that hides an installed package by its name; "" if there is none.

    Parameters
    ----------
    names
        Modules of packages that cannot be imported.
    error
        The exception of an import. The modules that it and its causes name are examined too.
    """
    import os
    import sys
    from importlib.machinery import PathFinder

    found = list(names)
    while error is not None:
        if isinstance(error, ImportError):
            found.append(error.name or "")
        elif isinstance(error, AttributeError) and isinstance(error.obj, type(sys)):
            found.append(error.obj.__name__)
        error = error.__cause__ or error.__context__
    folders = dict.fromkeys(os.path.abspath(folder) for folder in sys.path if isinstance(folder, str))
    for top in dict.fromkeys(name.partition(".")[0] for name in found if name):
        specs = [spec for folder in folders if (spec := PathFinder.find_spec(top, [folder]))]
        path = specs[0].origin if len(specs) > 1 else None
        if path:
            folder = os.path.dirname(os.path.dirname(path) if specs[0].submodule_search_locations else path)
            if os.path.isdir(folder) and not any(each.endswith((".dist-info", ".egg-info")) for each in os.listdir(folder)):
                return f"the file {path!r} hides the installed package {top!r}. Rename the file"
    return ""
