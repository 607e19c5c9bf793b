"""What the backend registers, and what happens when it is looked up."""

from __future__ import annotations

from devmod import _registry
from devmod.testing._case import Conformance
from devmod.testing._process import probe
from devmod.testing._row import Skip
from devmod.testing._rows._tools import must, real, row, same, samples_of, spec_of


@row("R1")
def keys(case: Conformance) -> None:
    """The kind's create and load_from_bytes are registered, sound, and of one distribution."""
    owners = set()
    for group in ("devmod.create", "devmod.load_from_bytes"):
        claim = _registry.registered(group).get(case.kind)
        must(claim is not None, f"nothing is registered as {group}.{case.kind}")
        assert claim is not None
        must(not claim.problem, f"{claim.key}: {claim.problem}")
        claim.load()
        owners.add(claim.who)
    must(len(owners) == 1, f"the keys of {case.kind} come from {' and '.join(sorted(owners))}; one distribution brings both")


@row("R2-aliases")
def aliases(case: Conformance) -> None:
    """Every alias of the kind loads modules of the kind."""
    import devmod

    spec = spec_of(case)
    if not spec.aliases:
        raise Skip("the kind has no aliases")
    data = real(case, samples_of(case)[0]).save_to_bytes()
    for alias in spec.aliases:
        same(devmod.load_from_bytes(alias, data).kind, case.kind, f"the kind of what the alias {alias!r} loads")


@row("R2-formats")
def formats(case: Conformance) -> None:
    """Every file format of the kind has its loader, where any has."""
    spec = spec_of(case)
    wanted = list(dict.fromkeys(spec.suffixes.values()))
    found = _registry.registered("devmod.load_from_file")
    there = [fmt for fmt in wanted if fmt in found]
    if not there:
        raise Skip("the backend loads no raw payload files (devmod.load_from_file)")
    for fmt in wanted:
        must(fmt in found, f"devmod.load_from_file.{fmt} is not registered, and {', '.join(there)} is")
        must(not found[fmt].problem, f"{found[fmt].key}: {found[fmt].problem}")
        found[fmt].load()


@row("R6")
def lazy(case: Conformance) -> None:
    """Nothing of the backend is imported before its key is used, and its driver not even then."""
    done = probe(case, "steps").value
    same(done["packages"]["loaded"], [], "what `import devmod` and a look at the registry import of the backend")
    for name in ("the target spec", "the look-up of devmod.create", "the look-up of devmod.load_from_bytes"):
        must(not done[name]["raised"], f"{name} fails: {done[name]['raised']}")
        driver = [event for event in done[name]["events"] if event.startswith(("imports ", "opens the library "))]
        must(not driver, f"{name} {'; '.join(driver)}")


#: How Python begins to tell of what went wrong as it ended.
_LOUD = ("Traceback (most recent call last)", "Exception ignored", "Error in atexit", "Error in sys.", "Fatal Python error")


@row("R8")
def ends(case: Conformance) -> None:
    """A process that has used the backend ends quietly."""
    answer = probe(case, "leave", samples_of(case))
    must(answer.value, "")
    loud = [line for line in answer.said.splitlines() if line.startswith(_LOUD)]
    must(not loud, f"the end of a process that used the backend is not quiet: {loud[0] if loud else ''}")


@row("R44")
def protocol(case: Conformance) -> None:
    """The distribution declares the protocol versions that it speaks, and core's is one of them."""
    claim = _registry.registered("devmod.create").get(case.kind)
    must(claim is not None, f"nothing is registered as devmod.create.{case.kind}")
    assert claim is not None
    if not claim.distribution:
        raise Skip("what is registered in a process has no metadata")
    declared = [each.name for each in _registry.declared("devmod.protocol") if each.distribution == claim.distribution]
    if not declared:
        raise Skip(f"{claim.distribution} declares none, and is taken to speak version 1")
    must(
        _registry.PROTOCOLS.intersection(declared),
        f"{claim.who} speaks {', '.join(declared)}, and this core {', '.join(_registry.PROTOCOLS)}",
    )
