"""The page that `devmod view` serves, and the npm package that it uses: the hook devmod_page."""

from __future__ import annotations

from pathlib import Path

from pluggy import HookimplMarker

_HERE = Path(__file__).resolve().parent


@HookimplMarker("devmod")
def devmod_page() -> dict[str, Path]:
    """The page's folders and files, by the path that they are served under."""
    web = _HERE / "_web"
    if web.is_dir():  # in a wheel, where hatch_build.py puts them
        return {"": web}
    project = _HERE.parent.parent
    return {name: project / path for name, path in PAGE.items()}


#: Where the page's parts lie in the source tree, from this distribution's folder. hatch_build.py reads it too.
PAGE = {
    "": "../../examples/web",
    "devmod-webgpu": "js/src",
    "lake.png": "../../examples/images/lake.png",
}
