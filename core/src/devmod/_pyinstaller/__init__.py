"""The PyInstaller hook of devmod. PyInstaller finds it by the entry point in core's metadata.
docs/design/registry.md has the reasons.
"""

from __future__ import annotations

import os


def get_hook_dirs() -> list[str]:
    """Return the folder of the hook."""
    return [os.path.dirname(__file__)]


def collect() -> tuple[list[tuple[str, str]], list[str]]:
    """Return the metadata, the bundles and the hidden modules of core and of every installed
    distribution with devmod entry points.

    Core imports its modules at their first use, which PyInstaller cannot see. DEVMOD_PLUGINS_ALLOW
    and DEVMOD_PLUGINS_DENY restrict the distributions.
    """
    from importlib.util import find_spec

    from PyInstaller.utils.hooks import collect_data_files, collect_submodules, copy_metadata  # type: ignore[import-not-found, import-untyped, unused-ignore]

    from devmod._plugins import registry
    from devmod._plugins.claim import CORE, Claim
    from devmod._plugins.discovery import distributions

    # A program needs neither the commands nor the cases of the conformance kit.
    unused = (
        "devmod._cli",
        "devmod.__main__",
        "devmod._pyinstaller",
        "devmod_targets._cli",
        "devmod_runtime.tools.devices_command",
    )
    modules: list[str] = collect_submodules(
        "devmod", filter=lambda name: not name.startswith(unused)
    )
    # `devmod.compile`, the specs and `devmod.load` name modules of these wheels by strings, which
    # PyInstaller cannot see.
    for package in ("devmod_readers", "devmod_runtime", "devmod_targets", "devmod_remote"):
        modules += (
            collect_submodules(package, filter=lambda name: not name.startswith(unused))
            if find_spec(package)
            else []
        )
    metadata: list[tuple[str, str]] = copy_metadata(CORE)
    metadata += collect_data_files("devmod_targets") if find_spec("devmod_targets") else []
    for source in distributions():
        claims = [Claim(group, name, value, source) for group, name, value in source.entries]
        if source.problem or not claims or registry.excluding_variable(claims[0]):
            continue
        metadata += copy_metadata(source.name)
        entry_modules = [
            (
                claim.group in ("devmod.conformance", "devmod.commands"),
                claim.value.partition(":")[0].strip(),
            )
            for claim in claims
        ]
        for claim in claims:
            metadata += (
                collect_data_files(claim.value, includes=["*.devmod"])
                if claim.group == "devmod.bundles"
                else []
            )
        excluded = {module for is_unused, module in entry_modules if is_unused}
        for module in sorted(
            {module for is_unused, module in entry_modules if not is_unused and module != "devmod"}
        ):
            modules.append(module)
            modules += [
                each
                for each in collect_submodules(module.partition(".")[0])
                if each not in excluded
            ]
    return metadata, sorted(set(modules))
