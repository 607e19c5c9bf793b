"""Run the node cases of onnx.backend.test on tinygrad's CPU, and write their counts to
docs/models.md.

    python tools/onnx_counts.py           write the counts
    python tools/onnx_counts.py opencl    run the cases on devices of a kind, too; print those that
                                         differ
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from contextlib import chdir
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any
from warnings import simplefilter

from environments import ROOT

PAGE = ROOT / "docs" / "models.md"
MARK = "<!-- operators of ONNX: tools/onnx_counts.py -->\n"
END = "<!-- end of operators -->\n"


def outcomes(kinds: list[str]) -> dict[str, dict[str, str]]:
    """Return the outcome of each case, by operator and name."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "core" / "tests")]
    from devmod.interop import tinygrad

    onnx_suite: Any = import_module("onnx_suite")

    simplefilter("ignore")
    result: dict[str, dict[str, str]] = {}
    with TemporaryDirectory() as folder, chdir(folder), tinygrad.cpu():
        for operator, cases in onnx_suite.cases().items():
            own = {}
            for case in cases:
                text = onnx_suite.outcome(case, kinds)
                if text != onnx_suite.RIGHT:
                    text = onnx_suite.class_of(case.name, text) or text
                own[case.name] = text
            result[operator] = own
    return result


def counts(results: dict[str, dict[str, str]]) -> str:
    """Return the counts as a part of the page."""
    import onnx

    right = []
    partly = []
    reasons: Counter[str] = Counter()
    lacking: dict[str, Any] = {}
    total = 0
    for operator, own in sorted(results.items()):
        number = sum(text == "right" for text in own.values())
        total += number
        if number == len(own):
            right.append(f"{operator}&nbsp;{number}")
        elif number:
            partly.append(f"{operator}&nbsp;{number}/{len(own)}")
        for text in own.values():
            if text != "right":
                reasons[text] += 1
                lacking.setdefault(text, {})[operator] = None
    every = sum(map(len, results.values()))
    start = f"Of the {every:,} cases of one node in onnx {onnx.__version__}, {total:,} are right."
    lines = [
        f"{start} All are right of: {', '.join(right)}. Some are right of: {', '.join(partly)}.",
        "",
        "| not right because of | cases | operators |",
        "|---|---|---|",
    ]
    for text, count in reasons.most_common():
        names = [*lacking[text]]
        shown = ", ".join(names[:4])
        if len(names) > 4:
            shown += ", …"
        lines.append(f"| {text} | {count} | {shown} |")
    return "\n".join([*lines, ""])


def main() -> int:
    """Run the cases and return the exit code."""
    kinds = sys.argv[1:]
    results = outcomes(kinds)
    if kinds:
        for operator, own in results.items():
            for name, text in own.items():
                if text != "right":
                    print(operator, name, text)
        return 0
    page = PAGE.read_text(encoding="utf-8")
    part = MARK + counts(results) + END
    PAGE.write_text(
        re.sub(f"{re.escape(MARK)}.*{re.escape(END)}", lambda _: part, page, flags=re.DOTALL),
        encoding="utf-8",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
