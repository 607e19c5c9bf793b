"""Puts the page of `devmod view` into the distributions: it lies in examples/web, the npm package in js/, and pip users have neither.

No npm is needed: the package is ES modules as they stand, without dependencies.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = Path("src") / "devmod_webgpu"
#: What the page is made of; other files beside them are the repository's own.
SUFFIXES = (".html", ".css", ".js", ".svg", ".png", ".devmod", ".txt")


class Page(BuildHookInterface[Any]):
    """Adds each file of the page to ``devmod_webgpu/_web``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds. An editable installation serves the source tree as it is."""
        root = Path(self.root)
        if version == "editable" or (root / PACKAGE / "_web").is_dir():  # the latter in an sdist, which has them in place
            return
        package = PACKAGE if self.target_name == "sdist" else Path("devmod_webgpu")
        for name, source in runpy.run_path(str(root / PACKAGE / "_page.py"))["PAGE"].items():
            place = (root / source).resolve(strict=True)
            for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
                if file.suffix in SUFFIXES:
                    target = package / "_web" / name / (file.relative_to(place) if place.is_dir() else "")
                    build_data["force_include"][str(file)] = target.as_posix()
