"""`rookery trace finalize`, `install-hooks` and notes in git: the ledger tied to commits."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rookery.cli import main
from rookery.errors import StorageError
from rookery.governance.cli.common import TraceExit
from rookery.governance.ledger.commit_notes import HOOK_LINE
from rookery.governance.ledger.records import content_hash
from support.agent_trace_format import shape_problems
from support.traced_workspace import TracedWorkspace, trace

Captured = pytest.CaptureFixture[str]
JWT = "src/auth/jwt.py"
BODY = "def verify(token):\n    claims = decode(token)\n    return claims\n"


@pytest.fixture
def work(home: Path) -> TracedWorkspace:
    work = TracedWorkspace(Path.cwd())
    work.person_writes(JWT, "import time\n")
    work.commit("first")
    return work


def notes(work: TracedWorkspace, revision: str = "HEAD") -> list[dict[str, Any]]:
    said = work.git("notes", "--ref=agent-trace", "show", revision)
    return [json.loads(line) for line in said.splitlines()]


def reported(capsys: Captured, *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert trace(*arguments, "--json") == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_a_note_has_the_lines_of_the_commit(work: TracedWorkspace, capsys: Captured):
    record = work.agent_writes(JWT, f"import time\n{BODY}")
    work.person_writes(JWT, f"# mine\n# mine too\nimport time\n{BODY}")
    revision = work.commit()
    assert reported(capsys, "finalize") == {
        "commit": revision,
        "records": 1,
        "lines": 3,
        "edited_since": 0,
        "unknown": 2,
        "dropped": 0,
    }
    (noted,) = notes(work)
    assert shape_problems(noted) == ()
    assert noted["vcs"] == {"type": "git", "revision": revision}
    (talk,) = noted["files"][0]["conversations"]
    mark = content_hash(BODY.splitlines())
    assert talk["ranges"] == [{"start_line": 4, "end_line": 6, "content_hash": mark}]
    assert talk["contributor"] == {"type": "ai", "model_id": "example/model-1"}
    own = noted["metadata"]["orchestration"]
    assert own["finalises"] == record
    assert own["files"][0]["original_ranges"] == [
        {"start_line": 2, "end_line": 4, "content_hash": mark}
    ]
    assert {"stream", "seq", "hash"}.isdisjoint(own), "it does not pretend to be in the chain"
    assert trace("finalize") == 0
    assert notes(work) == [noted], "to do it again changes nothing"


def amend(work: TracedWorkspace) -> None:
    work.git("commit", "-q", "--amend", "-m", "another message")


def squash(work: TracedWorkspace) -> None:
    work.person_writes("notes.txt", "and something else\n")
    work.commit("second")
    work.git("reset", "-q", "--soft", "HEAD~2")
    work.commit("both")


def pick(work: TracedWorkspace) -> None:
    """Onto a branch where the lines have other positions."""
    work.git("checkout", "-q", "-b", "other", "HEAD~1")
    work.person_writes(JWT, "# a comment\n\nimport os\nimport time\n")
    work.commit("on the branch")
    work.git("cherry-pick", "-X", "theirs", "main")


REWRITES = {"amend": (amend, [2, 4]), "squash": (squash, [2, 4]), "cherry-pick": (pick, [5, 7])}


@pytest.mark.parametrize(("rewrite", "place"), REWRITES.values(), ids=REWRITES)
def test_a_rewritten_commit_is_noted_anew(
    work: TracedWorkspace, rewrite: Callable[[TracedWorkspace], None], place: list[int]
):
    work.agent_writes(JWT, f"import time\n{BODY}")
    old = work.commit()
    assert trace("finalize") == 0
    rewrite(work)
    new = work.git("rev-parse", "HEAD")
    assert new != old
    assert trace("finalize", new) == 0
    (noted,) = notes(work, new)
    assert noted["vcs"]["revision"] == new
    (lines,) = noted["files"][0]["conversations"][0]["ranges"]
    assert [lines["start_line"], lines["end_line"]] == place
    assert notes(work, old)[0]["vcs"]["revision"] == old


def test_notes_of_other_programs_are_kept(work: TracedWorkspace):
    theirs = {"version": "0.1.0", "id": "x", "timestamp": "t", "files": []}
    work.agent_writes(JWT, f"import time\n{BODY}")
    revision = work.commit()
    work.git("notes", "--ref=agent-trace", "add", "-m", json.dumps(theirs, indent=2), revision)
    for _ in range(2):
        assert trace("finalize") == 0
        assert [each["id"] == "x" for each in notes(work)] == [True, False]
    work.git("notes", "--ref=agent-trace", "add", "-f", "-m", "no record", revision)
    with pytest.raises(StorageError, match="not written by rookery"):
        trace("finalize")
    assert work.git("notes", "--ref=agent-trace", "show", revision) == "no record"


def test_what_does_not_match_is_dropped_and_counted(work: TracedWorkspace, capsys: Captured):
    work.agent_writes(JWT, f"import time\n{BODY}")
    work.agent_writes("src/auth/gone.py", "first_thing = 1\nsecond_thing = 2\n")
    changed = BODY.replace("decode(token)", "decode(token, KEY)")
    work.person_writes(JWT, f"import time\n{changed}")
    work.person_writes("src/auth/gone.py", "something_else = 1\n")
    work.commit()
    found = reported(capsys, "finalize")
    assert (found["lines"], found["edited_since"], found["unknown"]) == (2, 1, 1)
    assert found["dropped"] == 3


def test_a_commit_without_recorded_lines_gets_no_note_and_none_that_is_not_there(
    work: TracedWorkspace,
):
    assert trace("finalize") == 0
    with pytest.raises(subprocess.CalledProcessError):
        notes(work)
    for name in ("nonsense", "-x", "HEAD~7"):
        assert trace("finalize", "--", name) == TraceExit.NOT_FOUND, name


def test_outside_of_a_repository_nothing_is_noted(home: Path, capsys: Captured):
    TracedWorkspace(Path.cwd())
    for command in ("finalize", "install-hooks"):
        assert main.run(["trace", command]) == TraceExit.STORAGE
    assert "not in a git repository" in capsys.readouterr().err


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `rookery` in the PATH that knows the command."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "rookery"
    folders = os.pathsep.join(path for path in sys.path if path)
    script.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path[:0] = {folders.split(os.pathsep)!r}\n"
        "from support.traced_workspace import trace\n"
        "assert sys.argv[1] == 'trace'\nraise SystemExit(trace(*sys.argv[2:]))\n",
        encoding="utf-8",
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return script


def test_an_installed_hook_notes_every_commit(work: TracedWorkspace, program: Path):
    assert trace("install-hooks") == 0
    work.agent_writes(JWT, f"import time\n{BODY}")
    revision = work.commit()
    assert notes(work)[0]["vcs"]["revision"] == revision
    assert trace("install-hooks") == 0
    program.unlink()
    work.person_writes(JWT, "import time\n")
    work.commit("without the product a commit is made all the same")


def test_a_foreign_hook_is_not_changed(work: TracedWorkspace, capsys: Captured):
    work.git("config", "core.hooksPath", "my-hooks")
    hook = work.root / "my-hooks" / "post-commit"
    hook.parent.mkdir()
    hook.write_text("#!/bin/sh\necho mine\n", encoding="utf-8")
    assert trace("install-hooks") == TraceExit.FINDINGS
    assert HOOK_LINE in capsys.readouterr().err
    assert hook.read_text(encoding="utf-8") == "#!/bin/sh\necho mine\n"
    hook.write_text(f"#!/bin/sh\necho mine\n{HOOK_LINE}\n", encoding="utf-8")
    assert trace("install-hooks") == 0
