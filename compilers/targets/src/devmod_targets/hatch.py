"""The build hook for hatchling: `pip wheel .` builds the kernels of a manifest, and the wheel holds
the bundle.

Hatchling finds this module by the entry point ``devmod`` in the group ``hatch``. A project enables
it in its pyproject.toml:

    [tool.hatch.build.hooks.devmod]
"""

from __future__ import annotations

import os
from typing import Any, NoReturn
from zipfile import ZipFile

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.plugin import hookimpl

from devmod.backend import escape
from devmod.errors import DevmodError, list_names, with_log
from devmod_targets._paths import with_slashes
from devmod_targets.build import plan_of, read_manifest
from devmod_targets.build.build import build_plan, check_output, input_files
from devmod_targets.build.plan import Plan
from devmod_targets.build.result import BuildResult

#: The table of the hook in pyproject.toml, and its keys.
_TABLE = "[tool.hatch.build.hooks.devmod]"
_KEYS = ("manifest", "targets")
#: Hatchling's own keys of every hook's table.
_HATCHLINGS = (
    "dependencies",
    "enable-by-default",
    "require-runtime-dependencies",
    "require-runtime-features",
)


class DevmodBuildHook(BuildHookInterface):  # type: ignore[type-arg]  # Hatchling's parameter has no default
    """The build hook.

    A wheel and an editable install get the bundle, which is written to the manifest's ``output`` in
    the project. A source distribution gets the manifest and everything that the build reads, so
    that a wheel can be built from it.

    The table of the hook has two optional keys: ``manifest`` is the manifest or its folder
    (default: the project's folder), and ``targets`` is the list of the targets to build (default:
    all).
    """

    PLUGIN_NAME = "devmod"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the bundle, or add the inputs to a source distribution. Hatchling calls it before
        each build.
        """
        try:
            plan = self._plan()
            if self.target_name == "sdist":
                build_data["force_include"].update(
                    {path: self._inside(path) for path in input_files(plan)}
                )
                return
            place = self._inside(plan.output)
            result = build_plan(plan, allow_python=True)  # who builds a project runs its code
        except (DevmodError, OSError) as error:
            self._stop(str(error))
        self._report(result)
        build_data["artifacts"].append(f"/{place}")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Check that the wheel holds the bundle. Hatchling calls it after each build."""
        if self.target_name != "wheel" or version != "standard":
            return
        output = self._plan().output
        name = os.path.basename(output)
        with ZipFile(artifact_path) as wheel:
            if not any(member.rpartition("/")[2] == name for member in wheel.namelist()):
                os.remove(artifact_path)
                self._stop(
                    f"the wheel does not hold {self._inside(output)}: the file is in no package of the wheel. Write it into a package: set "
                    "output in the manifest"
                )

    def clean(self, versions: list[str]) -> None:
        """Remove the bundle. Hatchling calls it with ``--clean``."""
        try:
            plan = self._plan()
            check_output(plan)
            os.remove(plan.output)
        except FileNotFoundError:
            pass
        except (DevmodError, OSError) as error:
            self._stop(str(error))

    def _plan(self) -> Plan:
        unknown = [key for key in self.config if key not in (*_KEYS, *_HATCHLINGS)]
        if unknown:
            self._stop(
                f"pyproject.toml, {_TABLE}: the key {unknown[0]!r} is unknown; expected {list_names(_KEYS)}"
            )
        manifest = self.config.get("manifest", ".")
        targets = self.config.get("targets", [])
        if not isinstance(manifest, str):
            self._stop(
                f"pyproject.toml, {_TABLE}: manifest is the path of a file, not {manifest!r}"
            )
        if not (isinstance(targets, list) and all(isinstance(each, str) for each in targets)):
            self._stop(f"pyproject.toml, {_TABLE}: targets is a list of strings, not {targets!r}")
        return plan_of(read_manifest(os.path.join(self.root, manifest)), targets)

    def _inside(self, path: str) -> str:
        """Return a path relative to the project's folder, with slashes."""
        root = os.path.realpath(self.root)
        folder, name = os.path.split(path)
        relative = with_slashes(os.path.join(os.path.realpath(folder), name), root)
        if relative.startswith("../"):
            self._stop(f"{path} is outside of the project {root}: a distribution cannot hold it")
        return relative

    def _report(self, result: BuildResult) -> None:
        for text in (*result.problems, *result.warnings):
            self.app.display_warning(escape(f"devmod: warning: {text}"))
        for text in result.reports:
            self.app.display_info(escape(f"devmod: note: {text}"))
        failures = result.failures
        if failures:
            logs = "\n\n".join(with_log(str(each), each.log) for each in failures)
            self._stop(f"{len(failures)} of {len(result.results)} compiles failed:\n{logs}")
        self.app.display_info(f"devmod: {self._inside(result.output)}: {result.summary}")

    def _stop(self, text: str) -> NoReturn:
        self.app.abort(escape(f"devmod: {text}"))
        raise SystemExit(1)


@hookimpl
def hatch_register_build_hook() -> type[DevmodBuildHook]:
    """Return the hook: hatchling's plugin manager calls this function."""
    return DevmodBuildHook
