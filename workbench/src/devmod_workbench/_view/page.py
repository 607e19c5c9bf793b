"""The files of the page that `devmod view` serves, including the npm package."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent

#: The parts of the page in the source tree, relative to the folder of this distribution.
#: hatch_build.py reads this table.
PAGE = {
    "": "../extras/browser/page",
    "devmod-webgpu": "../extras/browser/js/src",
}


def page() -> dict[str, Path]:
    """Return the folders of the page by their URL path. "" is the path of the page itself."""
    web = _HERE / "_web"
    if web.is_dir():  # in a wheel; hatch_build.py adds the folder
        return {"": web}
    project = _HERE.parents[2]
    return {name: project / path for name, path in PAGE.items()}
