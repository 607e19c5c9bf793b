"""Add the page of `devmod view` to the distributions. Its sources are in extras/browser of the
repository, and an sdist has them.

The build does not need npm: the npm package consists of ES modules without dependencies.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = Path("src") / "devmod_workbench" / "_view"
# Where to change: a view, a form or a colour of the page of `devmod view`
#   here: `extras/browser/page` (`page.js` loads the others, `page.css` has the style)
#   also: `workbench/hatch_build.py` (`SUFFIXES`) for a new type of file
#   tests: `tests/test_two_places.py`, `tests/test_browser_page.py`; `tests/test_browser_forms.py`
#     for forms and their errors, also in a narrow window
#: The suffixes of the page's files. Other files are not added.
SUFFIXES = (".html", ".css", ".js", ".svg", ".png", ".devmod", ".txt")


class Page(BuildHookInterface[Any]):
    """Adds each file of the page to ``devmod_workbench/_view/_web``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files before hatchling builds.

        An editable installation serves the source tree.
        """
        root = Path(self.root)
        if (
            version == "editable" or (root / PACKAGE / "_web").is_dir()
        ):  # an sdist already has the files
            return
        package = PACKAGE if self.target_name == "sdist" else Path(*PACKAGE.parts[1:])
        for name, source in runpy.run_path(str(root / PACKAGE / "page.py"))["PAGE"].items():
            place = (root / source).resolve(strict=True)
            for file in sorted(place.rglob("*")):
                if file.suffix in SUFFIXES:
                    target = package / "_web" / name / file.relative_to(place)
                    build_data["force_include"][str(file)] = target.as_posix()
