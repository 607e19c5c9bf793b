"""Two runs of a task that writes files: the second waits, and names the first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOOLS = str(ROOT / "tools")
sys.path.insert(0, TOOLS)

import build_pages  # noqa: E402
import task_lock  # noqa: E402

SECOND = f"""import sys
sys.path.insert(0, {TOOLS!r})
from pathlib import Path
import task_lock
task_lock.ROOT = Path(sys.argv[1])
with task_lock.task_lock("docs"):
    print("has it", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the tasks do not run on Windows")
def test_the_second_run_of_a_task_waits_and_names_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(task_lock, "ROOT", tmp_path)
    with task_lock.task_lock("docs"):
        owner = (tmp_path / "build" / "docs.lock").read_text().strip()
        second = subprocess.Popen(
            [sys.executable, "-c", SECOND, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert second.stdout is not None
        line = second.stdout.readline()
        assert line == f"docs: waits for {owner}, which writes the same files\n"
        with task_lock.task_lock("wheels"):  # another task does not wait
            pass
    assert second.communicate(timeout=120)[0] == "has it\n"
    assert capsys.readouterr().out == ""
    with task_lock.task_lock("docs"):  # the owner that has ended is no owner
        pass
    assert capsys.readouterr().out == ""


def test_each_phase_of_the_pages_is_printed_once() -> None:
    lines = [
        "Running Sphinx v8.1\n",
        "loading translations [en]... done\n",
        "writing output... \n",
        "reading sources... [ 50%] api .. backend\n",
        "reading sources... [100%] browser\n",
        "looking for now-outdated files... none found\n",
        "writing output... [100%] api\n",
        "build succeeded.\n",
    ]
    assert [*build_pages.phases(lines)] == ["Running Sphinx", "reading sources", "writing output"]
