"""The PyInstaller hook of devmod. PyInstaller finds it by the entry point in core's metadata.
docs/design/registry.md has the reasons.
"""

from __future__ import annotations

import os

#: The modules that core imports by `import_with_pathlib`, whose names PyInstaller cannot see.
BY_NAME = ["importlib.metadata", "importlib.resources", "importlib_metadata"]


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
        "devmod.__main__",
        "devmod.commands",
        "devmod.testing",
        "devmod._pyinstaller",
        "devmod_targets._cli",
        "devmod_models._command",
        "devmod_workbench._cli",
        "devmod_workbench._view",
    )
    modules: list[str] = collect_submodules(
        "devmod", filter=lambda name: not name.startswith(unused)
    )
    # `devmod.compile`, the specs and `devmod.load` name modules of these wheels by strings, which
    # PyInstaller cannot see.
    for package in (
        "devmod_readers",
        "devmod_runtime",
        "devmod_workbench",
        "devmod_targets",
        "devmod_models",
        "devmod_remote",
        "devmod_wgsl",
        "devmod_driver_api",
    ):
        if find_spec(package):
            modules += collect_submodules(package, filter=lambda name: not name.startswith(unused))
    metadata: list[tuple[str, str]] = copy_metadata(CORE)
    if find_spec("devmod_targets"):
        metadata += collect_data_files("devmod_targets")

    for source in distributions():
        claims = [Claim(group, name, value, source) for group, name, value in source.entries]
        if source.problem or not claims or registry.excluding_variable(claims[0]):
            continue
        metadata += copy_metadata(source.name)
        used = set()
        excluded = set()
        for claim in claims:
            module = claim.value.partition(":")[0].strip()
            if claim.group in ("devmod.conformance", "devmod.commands"):
                excluded.add(module)
            elif module != "devmod":
                used.add(module)
            if claim.group == "devmod.bundles":
                metadata += collect_data_files(claim.value, includes=["*.devmod"])
            if claim.group == "devmod.load_from_bytes":  # what `devmod.doctor` and verify run
                package = module.rpartition(".")[0] or module
                metadata += collect_data_files(package, includes=["small_kernel.module"])
        for module in sorted(used):
            modules.append(module)
            for each in collect_submodules(module.partition(".")[0]):
                if each not in excluded:
                    modules.append(each)
    return metadata, sorted({*modules, *BY_NAME})
