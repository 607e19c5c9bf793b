"""The entries that the backend registers, and their look-up."""

from __future__ import annotations

from devmod import plugins
from devmod.plugins import PROTOCOLS
from devmod_conformance._case import Conformance
from devmod_conformance._process import probe
from devmod_conformance._row import Skip
from devmod_conformance._rows._tools import (
    require,
    require_equal,
    row,
    runnable_samples,
    runtime_module,
    summarize,
    target_spec,
    usable_samples,
)


@row("R1-keys")
def required_entries(case: Conformance) -> None:
    """The entries create and load_from_bytes of the kind can be imported, and one distribution provides both."""
    providers = set()
    for group in ("devmod.create", "devmod.load_from_bytes"):
        claim = plugins.registered(group).get(case.kind)
        require(claim is not None, f"{group}.{case.kind} is not registered")
        assert claim is not None
        require(not claim.problem, f"{claim.key}: {claim.problem}")
        plugins.load_claim(claim)
        providers.add(claim.provider)
    require(len(providers) == 1, f"the entries of {case.kind} are in {' and '.join(sorted(providers))}; one distribution must provide both")


@row("R1-groups")
def known_groups(case: Conformance) -> None:
    """The distribution has no entry point in an unknown group whose name begins with devmod."""
    claim = plugins.registered("devmod.create").get(case.kind)
    if claim is None or not claim.distribution:
        raise Skip("an entry that is registered in a process has no metadata")
    problems = [each.problem for each in plugins.ignored_entries() if each.distribution == claim.distribution]
    require(not problems, summarize(problems))


@row("R2-aliases")
def aliases(case: Conformance) -> None:
    """Every alias of the kind loads modules of the kind."""
    import devmod

    spec = target_spec(case)
    if not spec.aliases:
        raise Skip("the kind has no aliases")
    data = runtime_module(case, usable_samples(case)[0]).save_to_bytes()
    for alias in spec.aliases:
        require_equal(devmod.load_from_bytes(alias, data).kind, case.kind, f"the kind of a module that load_from_bytes({alias!r}) returns")


@row("R2-formats")
def format_loaders(case: Conformance) -> None:
    """If one file format of the kind has a loader, every one has."""
    spec = target_spec(case)
    formats = list(dict.fromkeys(spec.suffixes.values()))
    loaders = plugins.registered("devmod.load_from_file")
    registered = [fmt for fmt in formats if fmt in loaders]
    if not registered:
        raise Skip("the backend has no loader of raw payload files (devmod.load_from_file)")
    for fmt in formats:
        require(fmt in loaders, f"devmod.load_from_file.{fmt} is not registered, but {', '.join(registered)} is")
        require(not loaders[fmt].problem, f"{loaders[fmt].key}: {loaders[fmt].problem}")
        plugins.load_claim(loaders[fmt])


@row("R6")
def lazy_imports(case: Conformance) -> None:
    """The backend is imported at the first look-up of its entry, and that imports no driver."""
    steps = probe(case, "steps").value
    require_equal(steps["packages"]["loaded"], [], "the backend's modules after `import devmod` and a list of the registry")
    for name in ("the target spec", "the look-up of devmod.create", "the look-up of devmod.load_from_bytes"):
        require(not steps[name]["raised"], f"{name} fails: {steps[name]['raised']}")
        driver = [event for event in steps[name]["events"] if event.startswith(("imports ", "opens the library "))]
        require(not driver, f"{name} {summarize(driver)}")


#: The beginnings of the lines that Python prints for errors at exit.
_EXIT_ERRORS = ("Traceback (most recent call last)", "Exception ignored", "Error in atexit", "Error in sys.", "Fatal Python error")


@row("R8")
def quiet_exit(case: Conformance) -> None:
    """A process that has used the backend exits without an error message."""
    answer = probe(case, "leave", runnable_samples(case))
    require(answer.value, "")
    lines = [line for line in answer.stderr.splitlines() if line.startswith(_EXIT_ERRORS)]
    require(not lines, f"a process that used the backend prints an error at exit: {lines[0] if lines else ''}")


@row("R44")
def protocol(case: Conformance) -> None:
    """The distribution declares the protocol version of the installed core."""
    claim = plugins.registered("devmod.create").get(case.kind)
    require(claim is not None, f"devmod.create.{case.kind} is not registered")
    assert claim is not None
    if not claim.distribution:
        raise Skip("an entry that is registered in a process has no metadata")
    declared = [each.name for each in plugins.declared_claims("devmod.protocol") if each.distribution == claim.distribution]
    if not declared:
        raise Skip(f"{claim.distribution} declares no protocol version, which means version 1")
    require(
        PROTOCOLS.intersection(declared),
        f"{claim.provider} declares protocol version {', '.join(declared)}, but the installed core has version {', '.join(PROTOCOLS)}",
    )
