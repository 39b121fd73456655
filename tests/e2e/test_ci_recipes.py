"""The recipes for CI are safe against what a pull request says, and their commands work."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.repositories import git
from support.terminal_session import COMMAND, Installed

PAGE = Path(__file__).parents[2] / "docs" / "recipes" / "github-actions.md"
BLOCKS = re.findall(r"^```(yaml|sh)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
ACTIONS, GITLAB = (yaml.safe_load(text) for kind, text in BLOCKS if kind == "yaml")
GITLAB = GITLAB["review"]
[CRON] = (text for kind, text in BLOCKS if kind == "sh")
JOB: dict[str, Any] = ACTIONS["jobs"]["review"]
STEPS: list[dict[str, Any]] = JOB["steps"]
RUN = {step["name"]: step["run"] for step in STEPS if "run" in step}
FAULT = {"severity": "error", "line": 1, "title": "Odd", "explanation": "::error::It is."}


def test_the_workflow_gives_a_pull_request_no_rights():
    events = ACTIONS[True]  # YAML 1.1 reads `on` as true
    assert list(events) == ["pull_request"]
    assert ACTIONS["permissions"] == {}
    assert JOB["permissions"] == {"contents": "read", "security-events": "write"}
    assert "head.repo.full_name == github.repository" in JOB["if"]
    assert JOB["timeout-minutes"] <= 15
    [checkout] = [step for step in STEPS if "checkout" in step.get("uses", "")]
    assert checkout["with"]["persist-credentials"] is False
    names = [step.get("name", step.get("uses", "")) for step in STEPS]
    assert names.index("Install") < names.index(checkout["uses"])


def test_no_expression_stands_in_a_shell_command():
    assert [text for text in RUN.values() if "${{" in text] == []
    for step in STEPS:
        for text in step.get("env", {}).values():
            found = re.findall(r"\$\{\{\s*(.*?)\s*\}\}", text)
            assert all(re.fullmatch(r"[a-zA-Z_.]+", each) for each in found)
            assert not re.search(r"title|body|\bref\b|label|user", text)


def test_actions_are_pinned():
    used = [step["uses"] for step in STEPS if "uses" in step]
    assert all(re.search(r"@[0-9a-f]{40}$", each) for each in used)


@pytest.fixture
def change(rookery: Installed) -> dict[str, str]:
    """A repository with a branch to review, and the variables of a job about it."""
    folder, remote = rookery.workspace, rookery.workspace.parent / "remote.git"
    git(folder.parent, "init", "-q", "--bare", "-b", "main", str(remote))
    git(folder, "init", "-q", "-b", "main")
    (folder / "app.py").write_text("x = 1\n", encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "start")
    git(folder, "remote", "add", "origin", str(remote))
    git(folder, "push", "-q", "origin", "main")
    git(folder, "checkout", "-qb", "topic")
    (folder / "app.py").write_text("x = 2\n", encoding="utf-8")
    (folder / "review.json").symlink_to("../stolen")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "$(touch injected)")
    base, tip = (git(folder, "rev-parse", each) for each in ("main", "topic"))
    (folder.parent / "temp").mkdir()
    return {
        **rookery.environ,
        "PATH": f"{Path(COMMAND).parent}{os.pathsep}{os.environ['PATH']}",
        "BASE_SHA": base,
        "HEAD_SHA": tip,
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": base,
        "CI_COMMIT_SHA": tip,
        "RUNNER_TEMP": str(folder.parent / "temp"),
        "GITHUB_OUTPUT": str(folder.parent / "output"),
        "ROOKERY_PROVIDER": "scripted",
    }


def model(rookery: Installed, *paths: str) -> dict[str, str]:
    """Variables that select a model which finds an error in each of these files."""
    found = json.dumps([{**FAULT, "path": path} for path in paths])
    script = f"- calls: [{{tool: submit_review, arguments: {{findings: {found}}}}}]\n- say: Done.\n"
    return {"ROOKERY_MODEL": rookery.script(script)[-1]}


def run(text: str, folder: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """As GitHub runs a step."""
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text]
    return subprocess.run(
        words, cwd=folder, env=environ, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("paths", "code", "status"), [(["app.py"], "10", 1), ([], "0", 0)])
def test_the_steps_of_the_workflow_work(
    rookery: Installed, change: dict[str, str], paths: list[str], code: str, status: int
):
    environ = change | model(rookery, *paths) | {"ROOKERY_MAX_COST": "1"}
    done = run(RUN["Review"], rookery.workspace, environ)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    temp = Path(change["RUNNER_TEMP"])
    told = json.loads((temp / "review.json").read_text(encoding="utf-8"))
    assert [each["path"] for each in told["findings"]] == paths
    sarif = json.loads((temp / "review.sarif").read_text(encoding="utf-8"))
    assert len(sarif["runs"][0]["results"]) == len(paths)
    assert Path(change["GITHUB_OUTPUT"]).read_text(encoding="utf-8") == f"code={code}\n"
    shown = run(RUN["Show findings"], rookery.workspace, environ).stdout.splitlines()
    assert shown[0].startswith("::stop-commands::")
    assert shown[-1] == f"::{shown[0].removeprefix('::stop-commands::')}::"
    decided = run(RUN["Decide"], rookery.workspace, environ | {"CODE": code})
    assert decided.returncode == status
    assert not (rookery.workspace / "injected").exists()
    assert not (rookery.workspace.parent / "stolen").exists()


@pytest.mark.parametrize(("code", "status"), [("4", 0), ("124", 0), ("3", 1), ("", 1)])
def test_an_incomplete_review_warns_and_a_failed_one_fails(tmp_path: Path, code: str, status: int):
    decided = run(RUN["Decide"], tmp_path, {"PATH": os.environ["PATH"], "CODE": code})
    assert decided.returncode == status
    assert ("::warning::" in decided.stdout) == (status == 0)


def test_the_gitlab_job_works(rookery: Installed, change: dict[str, str]):
    environ = change | model(rookery, "app.py")
    done = run("\n".join(GITLAB["script"]), rookery.workspace, environ)
    assert done.returncode == 10
    told = json.loads((rookery.workspace / "review.json").read_text(encoding="utf-8"))
    assert told["findings"][0]["path"] == "app.py"
    assert not (rookery.workspace.parent / "stolen").exists()


def test_the_cron_script_reviews_what_came_to_the_branch(
    rookery: Installed, change: dict[str, str]
):
    folder = rookery.workspace
    git(folder, "push", "-q", "origin", "topic:main")
    git(folder, "update-ref", "refs/remotes/origin/main", change["BASE_SHA"])
    script = folder.parent / "review-main"
    script.write_text(CRON, encoding="utf-8")
    script.chmod(0o755)
    environ = change | model(rookery, "app.py")
    done = subprocess.run(
        [script, folder], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "1. app.py:1: error: Odd" in done.stdout
