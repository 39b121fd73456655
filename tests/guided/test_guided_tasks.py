"""Whole tasks of a guided model: the real command against a local model server."""

import json
from typing import Any

import pytest

from llm_server import LlmServer, say
from llm_server.parts import Status
from support.terminal_session import Installed

BROKEN = "def add(a, b):\n    return a - b\n"
FIXED = "def add(a, b):\n    return a + b  # the sum\n"
CHECK = "grep -qs 'a + b' calc.py || { echo 'AssertionError: not 3'; exit 1; }\n"
TASK = "add is wrong, see `sh check.sh`. Fix it."
MODEL = "coder-1.5b"


@pytest.fixture
def project(tmp_path) -> Installed:
    rookery = Installed(tmp_path)
    rookery.environ["ROOKERY_SANDBOX_USE"] = "off"
    (rookery.workspace / "calc.py").write_text(BROKEN)
    (rookery.workspace / "check.sh").write_text(CHECK)
    return rookery


def plan(*where: str, change: str = "Add instead of subtracting.") -> Any:
    return say(json.dumps({"cause": "It subtracts.", "change": change, "where": list(where)}))


def five_attempts(path: str, text: str) -> list[Any]:
    """What the model says in five attempts, three of them with a plan."""
    texts = [[say(text.format(number))] for number in range(5)]
    planned = [plan(path)]
    return [planned, texts[0], texts[1], planned, texts[2], texts[3], planned, texts[4]]


def run(project: Installed, server: LlmServer, task: str, *flags: str) -> Any:
    where = ("--provider", "vllm", "-m", MODEL, "--base-url", f"{server.url}/v1")
    return project.run("-p", *where, *(flags or ("-y",)), task)


def test_a_plan_a_file_and_the_check_take_two_small_requests_that_begin_alike(project: Installed):
    with LlmServer([plan("calc.py")], [say(FIXED + "```")]) as server:
        done = run(project, server, TASK)
    assert (done.returncode, done.stdout) == (0, "Changed calc.py. Passed: sh check.sh\n")
    assert (project.workspace / "calc.py").read_text() == FIXED
    asked, written = (request.body for request in server.requests)
    assert "tools" not in asked
    choices = asked["response_format"]["json_schema"]["schema"]["properties"]["where"]
    assert choices["items"] == {"enum": ["calc.py"]}
    assert "AssertionError" in asked["messages"][1]["content"]
    assert written["messages"][-1] == {"role": "assistant", "content": "calc.py\n```python\n"}
    assert written["stop"] == ["\n```"]
    first, second = asked["messages"], written["messages"]
    task = first[1]["content"].index("Task:")
    assert first[0] == second[0]
    assert first[1]["content"][:task] == second[1]["content"][:task]
    assert sum(len(each["content"]) for each in first) < 1_500


def test_a_failed_attempt_is_undone_and_tried_another_way(project: Installed):
    wrong = "def add(a, b):\n    return 10 * a * b\n"
    with LlmServer(
        [plan("calc.py")], [say(wrong)],
        [say(BROKEN)],  # unchanged, so a guard ends the second approach
        [plan("calc.py")], [say(FIXED)],
    ) as server:  # fmt: skip
        done = run(project, server, TASK)
    assert done.returncode == 0
    assert (project.workspace / "calc.py").read_text() == FIXED
    second = server.requests[2].body["messages"]
    assert "An earlier try failed: AssertionError" in second[1]["content"]
    assert "Plan:" not in second[1]["content"]


ODD_BYTES = b"\xef\xbb\xbf" + BROKEN.removesuffix("\n").replace("\n", "\r\n").encode()


@pytest.mark.parametrize(
    ("before", "end"),
    [(BROKEN.encode(), "\n"), (ODD_BYTES, "\n"), (BROKEN.encode(), "\r\n")],
    ids=["plain", "odd", "odd words of the model"],
)
def test_when_nothing_helps_the_files_are_as_before_byte_for_byte(
    project: Installed, before: bytes, end: str
):
    (project.workspace / "calc.py").write_bytes(before)
    texts = five_attempts("calc.py", f"def add(a, b):{end}    return [{{}}]{end}")
    texts[0] = [plan("calc.py", change="calc.py: CRLF line ends, no newline at the end")]
    with LlmServer(*texts) as server:
        done = run(project, server, TASK)
    assert len(server.requests) == 8
    assert "I could not do this; the files are as they were." in done.stdout
    assert (project.workspace / "calc.py").read_bytes() == before


@pytest.mark.parametrize("text", [BROKEN.replace("\n", "\r\n", 1), f"```python\n{BROKEN}```\n"])
def test_a_file_whose_bytes_could_not_be_restored_is_not_changed(project: Installed, text: str):
    before = text.encode()
    (project.workspace / "calc.py").write_bytes(before)
    with LlmServer() as server:
        done = run(project, server, TASK)
    assert "so I could not restore it exactly" in done.stdout
    assert (project.workspace / "calc.py").read_bytes() == before


def test_a_created_file_of_a_failed_attempt_is_deleted(project: Installed):
    task = "Create double.py so that `sh -c 'grep -q twice double.py'` works."
    with LlmServer(*five_attempts("double.py", "def once{}(x):\n    return x\n")) as server:
        run(project, server, task)
    assert not (project.workspace / "double.py").exists()


def test_a_file_is_deleted_once_and_restored_if_all_fails(project: Installed):
    task = "Create sums.py with add and delete calc.py. `sh check.sh` must pass."
    with LlmServer(*five_attempts("sums.py", "def add(a, b):\n    return [{}]\n")) as server:
        done = run(project, server, task)
    assert "No such file" not in done.stderr
    assert (project.workspace / "calc.py").read_text() == BROKEN
    assert not (project.workspace / "sums.py").exists()


def test_the_size_of_a_model_is_read_from_its_server(
    project: Installed,
):
    listed = {"data": [{"id": "qwen", "meta": {"n_params": 1_543_714_304}}]}
    pages = {"/v1/models": Status(200, listed)}
    with LlmServer([plan("calc.py")], [say(FIXED)], pages=pages) as server:
        where = ("--provider", "vllm", "-m", "qwen", "--base-url", f"{server.url}/v1")
        project.run("-p", *where, "-y", TASK)
    assert (project.workspace / "calc.py").read_text() == FIXED


def test_a_question_is_answered_in_words_with_one_request(project: Installed):
    with LlmServer([say("It subtracts.")]) as server:
        done = run(project, server, "What does add do?")
    assert (done.returncode, done.stdout) == (0, "It subtracts.\n")
    assert len(server.requests) == 1


def test_counting_runs_a_command_first(project: Installed):
    with LlmServer([say("ls | wc -l\n```")], [say("2 files.")]) as server:
        done = run(project, server, "How many files are here?")
    assert done.stdout == "2 files.\n"
    assert "$ ls | wc -l\n2" in server.requests[1].body["messages"][1]["content"]


def test_a_rename_that_passes_is_kept(project: Installed):
    (project.workspace / "use.py").write_text("from calc import add\n")
    with LlmServer() as server:
        done = run(project, server, "Rename the function add to plus.")
    assert (server.requests, done.returncode) == ([], 0)
    assert "def plus(a, b):" in (project.workspace / "calc.py").read_text()
    assert "from calc import plus" in (project.workspace / "use.py").read_text()


def test_nothing_runs_or_changes_without_approval(project: Installed):
    with LlmServer([plan("calc.py")], [say(FIXED)]) as server:
        done = run(project, server, TASK, "--no-color")
    assert (project.workspace / "calc.py").read_text() == BROKEN
    assert done.returncode != 0 or "not made" in done.stdout


def test_a_plan_that_is_not_json_still_leads_to_a_change(project: Installed):
    with LlmServer([say("I will fix it!")], [say(FIXED)]) as server:
        run(project, server, TASK)
    assert (project.workspace / "calc.py").read_text() == FIXED
