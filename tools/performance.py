"""`make performance`: the tables and pictures of docs/performance.md, from the figures that `make
bench` wrote to build/figures.json.

A table of the page stands between a comment with its name and `<!-- end -->`:

- `<!-- table: TITLE -->`: the figures that a benchmark recorded with that title
- `<!-- bounds: NAME … -->`: the ratios of the benchmarks with these names; `NAME/BEGIN` has those
  whose text begins so, in one word. Ratios whose texts differ in one word are one row
- `<!-- notes: NAME -->`: the notes of a benchmark
- `<!-- versions: TITLE -->`: the machine of each date, and the versions of the peers

A table without figures stays as it is, so the page can be filled from runs on several machines. The
pictures follow the reader's colour scheme by a style sheet in each file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import StringIO
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from environments import ROOT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURES = ROOT / "build" / "figures.json"
PAGE = ROOT / "docs" / "performance.md"
OUT = ROOT / "docs" / "images"
#: The colours of the pictures: in a light page, which matplotlib draws with, and in a dark page.
COLOURS = {
    "card": ("#f6f8fa", "#161b22"),
    "text": ("#1f2328", "#e6edf3"),
    "quiet": ("#57606a", "#9da7b3"),
    "grid": ("#d8dee4", "#30363d"),
    "devmod": ("#0f766e", "#4bc0b5"),
    "pyopencl": ("#c2410c", "#fb923c"),
    "Taichi": ("#7e22ce", "#c084fc"),
    "IREE": ("#1d4ed8", "#60a5fa"),
    "Warp": ("#be123c", "#fb7185"),
    "Numba": ("#4d7c0f", "#a3e635"),
    "NumPy": ("#6b7280", "#a3aab5"),
}
LIGHT = {name: light for name, (light, _) in COLOURS.items()}
#: The line and the marker of a setting: the rest of a row's name.
STYLES = {"Vulkan": ("--", "s"), "WebGPU": (":", "^"), "1 thread": ("--", "s")}
#: How opaque the bars of empty caches are.
FAINT = 0.45
UNITS = {
    0.1: "0.1 µs",
    1.0: "1 µs",
    10.0: "10 µs",
    100.0: "100 µs",
    1e3: "1 ms",
    1e4: "10 ms",
    1e5: "100 ms",
    1e6: "1 s",
}
#: By what factor the ratios of the runs of one case may differ, to be shown as one; and those of
#: the cases of one row.
_ALIKE = 1.2
_JOINED = 1.5
_BLOCK = re.compile(
    r"(<!-- (table|bounds|notes|versions): (.+?) -->\n).*?(<!-- end -->)", re.DOTALL
)


class Table(NamedTuple):
    """The figures with one title."""

    unit: str
    #: The figures by row and column.
    values: Mapping[str, Mapping[int | str, float]]
    #: The columns in their order.
    columns: Sequence[int | str]
    #: The date, with the machine where it needs one.
    date: str


def origin(run: Mapping[str, Any]) -> str:
    """Return the date and the machine of a run."""
    return f"{run['date']}, {run['machine']}"


def date_of(run: Mapping[str, Any], runs: Mapping[str, Any]) -> str:
    """Return the date of a run, with its machine if runs of that date are of several."""
    machines = {each["machine"] for each in runs.values() if each["date"] == run["date"]}
    if len(machines) > 1:
        return origin(run)
    date: str = run["date"]
    return date


def tables(runs: Mapping[str, Any]) -> dict[str, Table]:
    """Return the tables by their titles."""
    found: dict[str, Table] = {}
    for run in runs.values():
        for each in run["figures"]:
            if "table" in each:
                table = found.setdefault(
                    each["table"], Table(each["unit"], {}, [], date_of(run, runs))
                )
                row = dict(table.values.get(each["row"], {})) | {each["column"]: each["value"]}
                columns = [*table.columns, *({each["column"]} - set(table.columns))]
                found[each["table"]] = table._replace(
                    values={**table.values, each["row"]: row}, columns=columns
                )
    return found


def size(bytes_: int | str) -> str:
    """Return a column's name: a size in its unit."""
    if isinstance(bytes_, str):
        return bytes_
    for unit, shift in (("MiB", 20), ("KiB", 10)):
        if bytes_ >> shift:
            return f"{bytes_ >> shift} {unit}"
    return f"{bytes_} B"


def number(value: float) -> str:
    """Return a figure with three digits, or two below 10."""
    if value >= 100:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{float(f'{value:.2g}'):g}"


def ratio(value: float) -> str:
    """Return a ratio with three digits, without an exponent."""
    return f"{value:.3g}" if abs(value) >= 1e-4 else f"{value:.7f}".rstrip("0")


def ratio_cell(check: Mapping[str, Any]) -> str:
    """Return the ratio of a row: the median of several runs, with the least and the greatest if
    they differ by more than a fifth.
    """
    runs = check.get("runs", [check["ratio"]])
    middle = middle_of(check)
    text = ratio(middle)
    if middle > check["most"]:
        text = f"**over:** {text}"
    if differ(runs, _ALIKE):
        text += f" ({ratio(min(runs))} to {ratio(max(runs))})"
    return text


def differ(ratios: Sequence[float], factor: float) -> bool:
    """Return whether the greatest ratio exceeds the least by more than a factor. A ratio of times
    that are differences may be 0 or below.
    """
    return max(ratios) > factor * abs(min(ratios))


def markdown(rows: Iterable[Sequence[str]]) -> str:
    """Return a table: the first row is its head, and all columns but the first have numbers."""
    head, *others = rows
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *others]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def table_text(table: Table) -> str:
    """Return a recorded table."""
    if len(table.columns) == 1:
        head = ["", table.unit]
    else:
        head = [table.unit, *(size(column) for column in table.columns)]
    rows = [head]
    for name, row in table.values.items():
        cells = [name]
        for column in table.columns:
            cells.append(number(row[column]) if column in row else "")
        rows.append(cells)
    return markdown(rows) + f"\n*{table.date}*\n"


def middle_of(check: Mapping[str, Any]) -> float:
    """Return the ratio of a check: the median of several runs."""
    return float(median(check.get("runs", [check["ratio"]])))


def is_plain(check: Mapping[str, Any]) -> bool:
    """Whether a row has one ratio, which is below its bound."""
    return "(" not in ratio_cell(check) and "**" not in ratio_cell(check)


def words_of(text: str) -> list[str]:
    """Return the words of a row's text. A size with its unit is one."""
    return re.findall(r"[\d.,]+ [kM]?B\b[,:]?|\S+", text)


class Row:
    """A row of a table of bounds: one check, or several with the same bound whose texts differ in
    one word.
    """

    def __init__(self, check: Mapping[str, Any]) -> None:
        self.checks = [check]
        self.words = words_of(check["what"])
        #: The position of the word that differs; None while no word does.
        self.position: int | None = None

    def join(self, check: Mapping[str, Any], *, numbers: bool = False) -> bool:
        """Add a check. Return False if it does not belong into this row.

        With `numbers`, the word that differs must be a number or a size.
        """
        first = self.checks[0]
        if (first["most"], first["of"]) != (check["most"], check["of"]):
            return False
        if not (is_plain(first) and is_plain(check)):
            return False
        if differ([middle_of(each) for each in (*self.checks, check)], _JOINED):
            return False
        words = words_of(check["what"])
        if len(words) != len(self.words):
            return False

        pairs = enumerate(zip(self.words, words, strict=True))
        differences = {at for at, (one, other) in pairs if one != other} - {self.position}
        if len(differences) > (self.position is None):
            return False
        for at in differences:
            if numbers and not (self.words[at][0].isdigit() and words[at][0].isdigit()):
                return False
            self.position = at
        self.checks.append(check)
        return True

    def cells(self) -> list[str]:
        """Return the cells. The ratio of several checks is the least and the greatest of them."""
        first = self.checks[0]
        bound = [ratio(first["most"]), first["of"]]
        if len(self.checks) == 1:
            return [first["what"], ratio_cell(first), *bound]

        words = list(self.words)
        if self.position is not None:
            cases = [words_of(check["what"])[self.position] for check in self.checks]
            end = cases[0][-1] if cases[0][-1] in ",:" else ""
            words[self.position] = "/".join(each.rstrip(",:") for each in cases) + end
        middles = sorted(middle_of(check) for check in self.checks)
        cell = ratio(middles[0])
        if cell != ratio(middles[-1]):
            cell += f" to {ratio(middles[-1])}"
        return [" ".join(words), cell, *bound]


def bounds_rows(checks: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """Return the rows of a table of bounds. Those that differ in a number are joined first."""
    rows: list[Row] = []
    for check in checks:
        if not any(row.join(check, numbers=True) for row in rows):
            rows.append(Row(check))

    joined: list[Row] = []
    for row in rows:
        if len(row.checks) > 1 or not any(other.join(row.checks[0]) for other in joined):
            joined.append(row)
    return [row.cells() for row in joined]


def bounds_text(names: Sequence[str], runs: Mapping[str, Any]) -> str:
    """Return the table of ratios of some benchmarks, or "" without figures."""
    rows = [["what", "ratio", "at most", "of"]]
    dates: dict[str, None] = {}
    for text in names:
        name, _, begin = text.partition("/")
        run = runs.get(name, {"figures": ()})
        checks = []
        for each in run["figures"]:
            if "ratio" in each and each["what"].startswith(begin):
                checks.append(each)
        rows.extend(bounds_rows(checks))
        if checks:
            dates[date_of(run, runs)] = None
    if not dates:
        return ""
    lines = [f"\n*{each}*\n" for each in dates]
    return markdown(rows).replace("--: |\n", "--- |\n", 1) + "".join(lines)


def versions_text(runs: Mapping[str, Any]) -> str:
    """Return a line for each date and machine, with the versions of the peers."""
    found: dict[str, dict[str, None]] = {}
    for run in runs.values():
        peers = found.setdefault(origin(run), {})
        for peer in run.get("peers", "").split(", "):
            peers[peer] = None
    lines = []
    for place, peers in sorted(found.items()):
        lines.append("; ".join(filter(None, (place, ", ".join(filter(None, peers))))))
    return "".join(f"- {line}\n" for line in lines)


def fill(page: str, runs: Mapping[str, Any]) -> str:
    """Return the page with the tables for which there are figures."""
    recorded = tables(runs)

    def block(match: re.Match[str]) -> str:
        begin, sort, name, end = match.groups()
        if sort == "table" and name in recorded:
            return f"{begin}\n{table_text(recorded[name])}\n{end}"
        if sort == "notes" and name in runs:
            return f"{begin}\n{' '.join(each['note'] for each in runs[name]['figures'] if 'note' in each)}\n\n{end}"
        if sort == "versions" and (text := versions_text(runs)):
            return f"{begin}\n{text}\n{end}"
        if sort == "bounds" and (text := bounds_text(name.split(), runs)):
            return f"{begin}\n{text}\n{end}"
        print(f"no figures for the table: {name}")
        return match[0]

    return _BLOCK.sub(block, page)


# -- pictures


def colour(row: str) -> str:
    """Return the colour of a row: that of its project."""
    return LIGHT.get(row.partition(",")[0].partition(" ")[0], LIGHT["quiet"])


def style(row: str) -> tuple[str, str]:
    """Return the line and the marker of a row."""
    return STYLES.get(row.partition(", ")[2], ("-", "o"))


def figure(
    panels: int, height: float, ratios: Sequence[float] = ()
) -> tuple[Figure, Sequence[Axes]]:
    """Return a new picture with panels side by side."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "devmod",
            "font.size": 10,
            "text.color": LIGHT["text"],
            "axes.labelcolor": LIGHT["quiet"],
            "axes.edgecolor": LIGHT["grid"],
            "axes.facecolor": LIGHT["card"],
            "axes.titlesize": 12,
            "axes.titleweight": "bold",
            "axes.titlecolor": LIGHT["text"],
            "axes.titlelocation": "left",
            "axes.axisbelow": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": LIGHT["grid"],
            "grid.linewidth": 0.7,
            "xtick.color": LIGHT["quiet"],
            "ytick.color": LIGHT["quiet"],
            "figure.facecolor": LIGHT["card"],
            "figure.constrained_layout.w_pad": 0.12,
            "figure.constrained_layout.h_pad": 0.08,
        }
    )
    made = Figure(figsize=(9.2, height), layout="constrained")
    axes = made.subplots(1, panels, squeeze=False, width_ratios=ratios or None)
    return made, list(axes[0])


def save(drawing: Figure, name: str, title: str, description: str) -> None:
    """Write a picture as an SVG file whose colours follow the reader's scheme."""
    text = StringIO()
    drawing.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    result = text.getvalue()
    result = result[result.index("<svg") :]
    for key, (light, _) in COLOURS.items():
        result = result.replace(light, f"var(--{key})")
    result = re.sub(r"<metadata>.*?</metadata>\s*", "", result, flags=re.DOTALL)
    result = re.sub(r"'DejaVu Sans'(, [^;\"]*)?", "system-ui, sans-serif", result)
    schemes = [
        "".join(f"--{key}: {pair[scheme]}; " for key, pair in COLOURS.items()) for scheme in (0, 1)
    ]
    head = f"<title>{title}</title>\n<desc>{description}</desc>\n<style>\nsvg {{ {schemes[0]}}}\n"
    head += f"@media (prefers-color-scheme: dark) {{ svg {{ {schemes[1]}}} }}\n</style>\n"
    result = re.sub(
        r"(<svg [^>]*)>\n?", lambda match: f'{match[1]} role="img">\n{head}', result, count=1
    )
    (OUT / f"{name}.svg").write_text(
        "\n".join(line.rstrip() for line in result.splitlines()) + "\n", encoding="utf-8"
    )


def draw_calls(found: Mapping[str, Table]) -> None:
    """Draw the cost of a call against the size of its arrays."""
    jobs = {"axpy": "axpy: y += x / 2", "softmax": "softmax of rows of at most 1,024"}
    titles = [f"A call of {job} with NumPy arrays" for job in jobs]
    drawing, axes = figure(2, 4.9)
    for axis, title, text in zip(axes, titles, jobs.values(), strict=True):
        table = found[title]
        for row, values in table.values.items():
            line, marker = style(row)
            own = row.startswith("devmod")
            axis.plot(
                [float(column) for column in values],
                list(values.values()),
                line,
                marker=marker,
                color=colour(row),
                linewidth=2.4 if own else 1.4,
                markersize=5.5 if own else 4,
                zorder=3 if own else 2,
                label=row,
            )
        axis.set(xscale="log", yscale="log", title=text, xlabel="bytes of each array (logarithmic)")
        axis.set_xticks(
            [float(column) for column in table.columns], [size(column) for column in table.columns]
        )
        axis.set_xticks([], minor=True)
    low = min(axis.get_ylim()[0] for axis in axes)
    high = max(axis.get_ylim()[1] for axis in axes)
    ticks = {at: text for at, text in UNITS.items() if low <= at <= high}
    for axis in axes:
        axis.set_ylim(low, high)
        axis.set_yticks(list(ticks), ticks.values() if axis is axes[0] else [""] * len(ticks))
        axis.set_yticks([], minor=True)
    axes[0].set_ylabel("time of a call (logarithmic)")
    drawing.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=4,
        frameon=False,
        handlelength=3,
    )
    save(
        drawing,
        "calls",
        "The time of a call against the size of its arrays",
        "Two plots with logarithmic axes, of axpy and of softmax. The page has those of axpy in a table.",
    )


def bars(
    axis: Axes,
    rows: Sequence[str],
    values: Sequence[float],
    *,
    place: float = 0,
    height: float = 0.7,
    faint: bool = False,
) -> None:
    """Draw horizontal bars from zero, each with its figure."""
    at = [index + place for index in range(len(rows))]
    axis.barh(
        at, values, height=height, color=LIGHT["card"]
    )  # no line of the grid shows through a faint bar
    made = axis.barh(
        at,
        values,
        height=height,
        color=[colour(row) for row in rows],
        alpha=FAINT if faint else 1.0,
    )
    axis.bar_label(
        made, [number(value) for value in values], padding=4, fontsize=9, color=LIGHT["text"]
    )


def finish_bars(axis: Axes, rows: Sequence[str], title: str, unit: str) -> None:
    """Set the axes of horizontal bars."""
    axis.set(title=title, xlabel=unit, xlim=(0, axis.get_xlim()[1] * 1.12))
    axis.set_yticks(range(len(rows)), rows)
    axis.tick_params(axis="y", length=0, labelcolor=LIGHT["text"])
    axis.grid(visible=False, axis="y")
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axis.invert_yaxis()
    axis.spines["left"].set_visible(False)


def draw_first_result(found: Mapping[str, Table]) -> None:
    """Draw the time of a new process, with empty and with warm caches side by side."""
    from matplotlib.patches import Patch

    table = found["First result in a new process"]
    rows = list(table.values)
    drawing, (axis,) = figure(1, 5.4)
    bars(
        axis,
        rows,
        [table.values[row]["caches empty"] for row in rows],
        place=-0.2,
        height=0.36,
        faint=True,
    )
    bars(axis, rows, [table.values[row]["caches warm"] for row in rows], place=0.2, height=0.36)
    finish_bars(axis, rows, "From the start of Python to the first result", "milliseconds, from 0")
    names = {"caches empty": FAINT, "caches warm": 1.0}
    axis.legend(
        handles=[
            Patch(color=LIGHT["quiet"], alpha=alpha, label=name) for name, alpha in names.items()
        ],
        frameon=False,
    )
    save(
        drawing,
        "first-result",
        "The time to the first result in a new process",
        "Bars for each project, with empty and with warm caches. The page has the figures in a table.",
    )


def draw_install(found: Mapping[str, Table]) -> None:
    """Draw the installed size and the time of the import."""
    drawing, axes = figure(2, 3.6)
    for axis, title, text, unit in (
        (axes[0], "Installed size", "Installed size without NumPy", "MB, from 0"),
        (axes[1], "Import in a new process", "Time of the import", "milliseconds, from 0"),
    ):
        rows = list(found[title].values)
        bars(axis, rows, [found[title].values[row][""] for row in rows])
        finish_bars(axis, rows, text, unit)
    save(
        drawing,
        "install",
        "Installed size and time of the import",
        "Bars for each project. The page has the figures in tables.",
    )


#: The pictures, each with the titles of its tables.
PICTURES: Mapping[Callable[[Mapping[str, Table]], None], Sequence[str]] = {
    draw_install: ("Installed size", "Import in a new process"),
    draw_first_result: ("First result in a new process",),
    draw_calls: ("A call of axpy with NumPy arrays", "A call of softmax with NumPy arrays"),
}


def main() -> None:
    """Write the tables and the pictures."""
    if not FIGURES.exists():
        raise SystemExit(f"{FIGURES.relative_to(ROOT)} is missing: `make bench` writes it")
    runs = json.loads(FIGURES.read_text(encoding="utf-8"))
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), runs), encoding="utf-8")
    found = tables(runs)
    for draw, titles in PICTURES.items():
        if set(titles) <= set(found):
            draw(found)
        else:
            print(f"not drawn, without figures: {', '.join(titles)}")


if __name__ == "__main__":
    main()
