"""Export small nets of many architectures with PyTorch, compare three calls on each kind with it,
and write the table of docs/architectures.md.

    make frameworks                                 makes the environment
    PYTHON=build/frameworks/bin/python
    $PYTHON tools/architecture_table.py             run what has no outcome
    $PYTHON tools/architecture_table.py bert t5     run these nets again
    $PYTHON tools/architecture_table.py --part 1/2  run each second case, beside another process

The outcomes are in build/architectures.jsonl, so a run that was ended goes on where it was. A case
that was wrong runs again.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module, metadata
from typing import Any
from warnings import simplefilter

from environments import ROOT

PAGE = ROOT / "docs" / "architectures.md"
OUTCOMES = ROOT / "build" / "architectures.jsonl"
MARK = "<!-- nets: tools/architecture_table.py -->\n"
END = "<!-- end of nets -->\n"
#: The packages whose versions the page names.
PACKAGES = ("torch", "transformers", "timm", "torchvision")
#: Outcomes by net and form.
Outcomes = Mapping[tuple[str, str], Mapping[str, Any]]
_ESCAPE = re.compile(r"(?:\x1b|\\x1b)\[[0-9;]*m")


def table(nets: Mapping[str, Sequence[str]], outcomes: Outcomes) -> str:
    """Return the section of the page. `nets` has the forms of each net."""
    columns = ("fixed", "open", "cache")
    lines = [
        "| net | fixed | open lengths | cache | greatest difference |",
        "|---|---|---|---|---|",
    ]
    refusals: dict[str, list[str]] = {}
    whole = 0
    for name, forms in nets.items():
        cells = []
        worst = 0.0
        for form in columns:
            if form not in forms:
                cells.append("")
                continue
            found = outcomes.get((name, form), {})
            cells.append(_cell(found))
            if found.get("is_right"):
                worst = max(worst, *found["differences"].values())
            elif reason := _reason(found):
                refusals.setdefault(reason, []).append(f"{name} ({form})")
        is_whole = "right" in cells and set(cells) <= {"right", ""}
        whole += is_whole
        difference = f"{worst:.0e}" if worst else ""
        lines.append(f"| {name} | {' | '.join(cells)} | {difference} |")
    reasons = [f"- {', '.join(names)}: {reason}" for reason, names in refusals.items()]
    total = f"{whole} of {len(nets)} nets are right in each form that they have."
    return "\n".join(
        [total, "", *lines, "", "Refused, with the start of the text:", "", *reasons, ""]
    )


def _cell(outcome: Mapping[str, Any]) -> str:
    if not outcome:
        return "not run"
    if outcome["is_right"]:
        return "right"
    if outcome["error"]:
        return "refused"
    return "wrong"


def _reason(outcome: Mapping[str, Any]) -> str:
    """Return the first line of an error, as a page has it."""
    text = _ESCAPE.sub("", outcome.get("error", "")).partition("\n")[0]
    if len(text) > 240:
        text = f"{text[:240]}…"
    return re.sub(r"([<>|*_`\[\]])", r"\\\1", text)


def read() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the last outcome of each net in each form."""
    result = {}
    if OUTCOMES.exists():
        for line in OUTCOMES.read_text(encoding="utf-8").splitlines():
            own = json.loads(line)
            result[own["net"], own["form"]] = own
    return result


def _run(calls: Any, name: str, form: str) -> dict[str, Any]:
    """Return the outcome of a net. An error that is none of devmod's is a fault."""
    try:
        found = calls.outcome(name, form)
    except Exception as error:  # noqa: BLE001 - a model or an exporter may raise anything
        traceback.print_exc()
        return {"is_right": False, "error": "", "differences": {}, "fault": str(error)}
    return {
        "is_right": found.is_right,
        "error": found.error,
        "differences": found.differences,
        "fault": "",
    }


def main() -> int:
    """Run the nets, write the page, and return 1 if a net is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nets", nargs="*")
    parser.add_argument("--part", default="1/1")
    given = parser.parse_args()
    sys.path[:0] = [str(ROOT / "extras" / "models" / "tests")]
    simplefilter("ignore")
    calls = import_module("architecture_calls")
    nets = import_module("architectures").NETS
    forms = {name: calls.forms_of(net) for name, net in nets.items()}
    known = read()
    cases = []
    for name in given.nets or nets:
        for form in forms[name]:
            found = known.get((name, form))
            is_done = found is not None and (found["is_right"] or found["error"])
            if given.nets or not is_done:
                cases.append((name, form))
    number, count = map(int, given.part.split("/"))
    OUTCOMES.parent.mkdir(exist_ok=True)
    for name, form in cases[number - 1 :: count]:
        outcome = {"net": name, "form": form, **_run(calls, name, form)}
        with OUTCOMES.open("a", encoding="utf-8") as file:
            file.write(json.dumps(outcome) + "\n")
        print(
            f"{name} {form}: {_cell(outcome)} {outcome['differences'] or outcome['error']}",
            flush=True,
        )

    known = read()
    write(table(forms, known))
    return int(any(_cell(each) == "wrong" for each in known.values()))


def write(section: str) -> None:
    """Write the section of the page, with the versions of the packages."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES)
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(MARK)
    _, _, after = rest.partition(END)
    own = f"With {versions}: {section}"
    PAGE.write_text(f"{before}{MARK}{own}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
