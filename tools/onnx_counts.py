"""Run the node cases of onnx.backend.test on tinygrad's CPU and on devices, and write their counts
to docs/models.md.

    python tools/onnx_counts.py              run what is new or changed, and write the counts
    python tools/onnx_counts.py LSTM GRU     run the cases of these operators alone
    python tools/onnx_counts.py --part 1/2   run each second case, beside another process

The outcomes are in build/onnx_cases.jsonl, so a run that was ended goes on where it was. Cases that
were wrong run again. Other processes run them: one that ends, or takes too long, is a fault of its
case. The exit code is 1 if there is a fault.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import chdir
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any
from warnings import simplefilter

from environments import ROOT

PAGE = ROOT / "docs" / "models.md"
MARK = "<!-- operators of ONNX: tools/onnx_counts.py -->\n"
END = "<!-- end of operators -->\n"
TABLE = ROOT / "build" / "onnx_cases.jsonl"
#: The kinds whose devices run the cases.
KINDS = ("opencl", "webgpu")
#: The most seconds of a case, on a machine that does other work.
LIMIT = 600
#: The outcomes by operator, case and place.
Outcomes = dict[str, dict[str, dict[str, str]]]


def suite() -> Any:
    """Return the module of the cases."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "core" / "tests")]
    return import_module("onnx_suite")


def present_places() -> list[str]:
    """Return tinygrad's CPU, and the kinds of which a device is here."""
    import devmod

    return [suite().CPU, *[kind for kind in KINDS if devmod.devices(kind)]]


def run(operators: Sequence[str], places: Sequence[str], part: str = "1/1") -> Outcomes:
    """Run the cases that have no outcome, or a fault, and return all outcomes."""
    onnx_suite = suite()
    number, count = map(int, part.split("/"))
    cases = {}
    ranks = {}
    for several in onnx_suite.cases(*operators).values():
        for rank, case in enumerate(several):
            cases[case.name] = case
            ranks[case.name] = rank
    # The first case of each operator, then the second ones: a run that is ended has some of all.
    names = sorted(cases, key=ranks.__getitem__)[number - 1 :: count]
    table = onnx_suite.Table(TABLE)
    waiting = [name for name in names if _has_work(table, cases[name], places)]
    while waiting:
        last, problem = _run_process(waiting, places)
        if not problem:
            break
        if not last:
            raise SystemExit(f"the process that runs the cases {problem}")
        for place in places:
            table.add(cases[last], place, f"{onnx_suite.FAULT}the process {problem}")
        waiting = waiting[waiting.index(last) + 1 :]

    table = onnx_suite.Table(TABLE)
    result: Outcomes = {}
    for name in names:
        own = {place: table.outcome(cases[name], place) for place in places}
        operator = cases[name].model.graph.node[0].op_type
        result.setdefault(operator, {})[name] = own
    return result


def _has_work(table: Any, case: Any, places: Sequence[str]) -> bool:
    onnx_suite = suite()
    for place in places:
        outcome = table.outcome(case, place)
        if not outcome or onnx_suite.is_fault(case.name, outcome):
            return True
    return False


def _run_process(names: Sequence[str], places: Sequence[str]) -> tuple[str, str]:
    """Run cases in another process. Return the name of the last that it began, and how the process
    ended, or "".
    """
    command = [sys.executable, __file__, "--places", ",".join(places), "--child"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps(names))
        process.stdin.close()
        last = ""
        for line in process.stdout:
            last = line.strip()
    if process.returncode:
        return last, f"ended with {process.returncode}, or ran for {LIMIT} seconds"
    return last, ""


def _run_cases(places: Sequence[str]) -> None:
    """Run the cases whose names are in the standard input, in this process."""
    from devmod.interop import tinygrad

    onnx_suite = suite()
    names = json.load(sys.stdin)
    cases = {}
    for several in onnx_suite.cases().values():
        cases.update({case.name: case for case in several})
    table = onnx_suite.Table(TABLE)
    simplefilter("ignore")
    tinygrad._MANY = 1000  # other processes import tinygrad first
    with TemporaryDirectory() as folder, chdir(folder), tinygrad.cpu():
        for number, name in enumerate(names, 1):
            print(name, flush=True)
            faulthandler.dump_traceback_later(LIMIT, exit=True)
            found = onnx_suite.outcomes_or_faults(cases[name], places)
            faulthandler.cancel_dump_traceback_later()
            shown = []
            for place, outcome in found.items():
                table.add(cases[name], place, outcome)
                shown.append(f"{place} {_label(name, outcome)}")
            print(f"{number} of {len(names)}: {name}: {', '.join(shown)}", file=sys.stderr)


def _label(name: str, outcome: str) -> str:
    """Return an outcome as the page has it: a refusal by its class."""
    if outcome == "right":
        return outcome
    return suite().class_of(name, outcome) or outcome


def counts(results: Outcomes) -> str:
    """Return the counts as a part of the page."""
    import onnx

    partly = []
    lacks = []
    totals: Counter[str] = Counter()
    reasons: dict[str, Counter[str]] = {}
    lacking: dict[str, Any] = {}
    for operator, own in sorted(results.items()):
        number = 0
        for name, outcomes in own.items():
            number += outcomes["cpu"] == "right"
            for place, outcome in outcomes.items():
                label = _label(name, outcome)
                if label == "right":
                    totals[place] += 1
                    continue
                reasons.setdefault(label, Counter())[place] += 1
                lacking.setdefault(label, {})[operator] = None
        if not number:
            lacks.append(operator)
        elif number < len(own):
            partly.append(f"{operator}&nbsp;{number}/{len(own)}")
    every = sum(map(len, results.values()))
    places = [*totals]
    devices = []
    for place in places[1:]:
        devices.append(f"{totals[place]:,} on {place}")
    start = f"Of the {every:,} cases of one node in onnx {onnx.__version__}, {totals['cpu']:,} are right on the CPU"
    others = len(results) - len(partly) - len(lacks)
    lines = [
        f"{', '.join([start, *devices])}. Some are right of {', '.join(partly)}; "
        f"none of {', '.join(lacks)}; and all of the other {others} operators, on the CPU.",
        "",
        "The others are not right for these reasons, with their number at each place:",
        "",
    ]
    for label, own_counts in sorted(reasons.items(), key=lambda each: -each[1].total()):
        names = [*lacking[label]]
        shown = ", ".join(names[:4])
        if len(names) > 4:
            shown += ", …"
        numbers = [f"{place} {own_counts[place]}" for place in places]
        if len({own_counts[place] for place in places}) == 1:
            numbers = [str(own_counts[places[0]])]
        lines.append(f"- {label}: {', '.join(numbers)} ({shown})")
    return "\n".join([*lines, ""])


def faults(results: Outcomes) -> list[str]:
    """Return the cases that are neither right nor refused for a reason."""
    result = []
    for own in results.values():
        for name, outcomes in own.items():
            for place, outcome in outcomes.items():
                if suite().is_fault(name, outcome):
                    result.append(f"{name} on {place}: {outcome}")
    return result


def main() -> int:
    """Run the cases and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--part", default="1/1", help="such as 1/2: every second case")
    parser.add_argument("--places", help="such as cpu,opencl; default: all that are here")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    places = present_places()
    if given.places:
        places = given.places.split(",")
    if given.child:
        _run_cases(places)
        return 0
    results = run(given.operators, places, given.part)
    found = faults(results)
    for text in found:
        print(text)
    if not given.operators and given.part == "1/1" and not given.places:
        page = PAGE.read_text(encoding="utf-8")
        part = MARK + counts(results) + END
        PAGE.write_text(
            re.sub(f"{re.escape(MARK)}.*{re.escape(END)}", lambda _: part, page, flags=re.DOTALL),
            encoding="utf-8",
        )
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
