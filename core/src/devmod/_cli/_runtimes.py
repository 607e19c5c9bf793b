"""The runtimes that the modules of a file need, and those that are not installed. No plugin is imported."""

from __future__ import annotations

from typing import Any

from devmod._modules.bundle import BundleModule
from devmod._modules.module import BINARY_SERIALIZABLE, Module
from devmod._modules.tree import walk
from devmod._plugins import entries, registry
from devmod._plugins.messages import unknown_distribution
from devmod._plugins.miss import explain_name
from devmod._plugins.specs import find_spec
from devmod.errors import FormatError, admission_hint

#: The maximum number of candidates of all bundles of a file, beyond four for each module. Bundles may share candidates.
MAX_CANDIDATES = 1 << 14


def runtime_of(kind: str) -> dict[str, str]:
    """Return the installed distribution for a kind (or ""), the install command, and the variable that excludes an installed one."""
    claims = registry.claims("devmod.load_from_bytes", kind)
    installed = ", ".join(claim.provider for claim in claims)
    excluded = entries.excluded_claim("devmod.load_from_bytes", kind) if not claims else None
    spec = find_spec(kind)
    if excluded is not None:
        claim, variable = excluded
        return {"installed": "", "install": admission_hint(claim.distribution, variable), "excluded": variable}
    if spec is not None:
        install = spec.install
    elif meaning := explain_name("devmod.load_from_bytes", kind):
        install = f"nothing can be installed: {kind} is {meaning}"
    else:
        install = f"{kind}: {unknown_distribution(kind)}"
    return {"installed": installed, "install": install, "excluded": ""}


def missing_runtimes(root: Module) -> dict[str, Any]:
    """Return the commands that install a runtime for every function of a tree.

    A module and its imports need the runtimes of their kinds. A function of a bundle needs the runtime of one candidate.

    Returns
    -------
    dict
        ``install``: the necessary commands. ``choices``: lists of alternative commands, each with its functions. ``others``: the
        commands for candidates whose functions other candidates have.
    """
    runtimes: dict[str, dict[str, str]] = {}

    def command(module: Module) -> str:
        """Return the command that installs the module's runtime; "" if none is needed or it is installed."""
        if not module.property_mask & BINARY_SERIALIZABLE:  # a node without bytes: a bundle, TVM's host library
            return ""
        runtime = runtimes.get(module.kind) or runtimes.setdefault(module.kind, runtime_of(module.kind))
        return "" if runtime["installed"] else runtime["install"]

    install: dict[str, None] = {}
    choices: dict[tuple[str, ...], list[str]] = {}
    others: dict[str, None] = {}
    maximum = MAX_CANDIDATES + 4 * sum(1 for _ in walk(root))
    pairs = 0
    pending, seen = [root], {id(root)}
    while pending:
        module = pending.pop()
        if isinstance(module, BundleModule):
            candidates = module.candidates
            pairs += len(candidates)
            if pairs > maximum:
                raise FormatError(f"its bundles have more than {maximum} candidates together, which is the maximum of inspect")
            below = [child for candidate in candidates for child in candidate.imports]
            _add_candidates([(each, command(each)) for each in candidates], choices, others)
        else:
            below = list(module.imports)
            if command(module):
                install[command(module)] = None
        for child in reversed(below):
            if id(child) not in seen:
                seen.add(id(child))
                pending.append(child)
    install |= {commands[0]: None for commands in choices if len(commands) == 1}
    open_choices = {commands: names for commands, names in choices.items() if not any(each in install for each in commands)}
    needed = {*install, *(each for commands in open_choices for each in commands)}
    return {
        "install": list(install),
        "choices": [{"functions": names, "install": list(commands)} for commands, names in open_choices.items()],
        "others": [each for each in others if each not in needed],
    }


def _add_candidates(candidates: list[tuple[Module, str]], choices: dict[tuple[str, ...], list[str]], others: dict[str, None]) -> None:
    """Add the commands for a bundle's candidates, given with the command that installs each candidate's runtime."""
    commands_of: dict[str, tuple[str, ...]] = {}
    for candidate, command in candidates:
        if command:
            others[command] = None
        single = (command,)  # one tuple for all names: there may be many
        for name in candidate:
            before = commands_of.setdefault(name, single)
            if command not in before:
                commands_of[name] = before + single
    for name, commands in commands_of.items():
        if "" not in commands:
            choices.setdefault(commands, []).append(name)
