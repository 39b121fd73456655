"""The evaluation runs agents on tasks, ends those that hang, and says what became of each."""

import os
import select
import shlex
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from evaluate import RESULTS, main
from scores import read_trials
from trials import Trial, Usage

TASK = "py-fix-empty-average"
LONG = 30
"""Seconds; far more than a process needs to end."""
FIXED = """\
def average(numbers):
    return sum(numbers) / len(numbers) if numbers else 0.0


def report(name, numbers):
    return f"{name}: {average(numbers):.1f} ({len(numbers)} values)"
"""
USAGE = "usage: {tokens_in: 100, tokens_out: 20, cache_reads: 60}"
READS = f"- calls: [{{tool: read_file, arguments: {{path: report.py}}}}]\n  {USAGE}\n"


def writes(text: str) -> str:
    content = text.replace("\n", "\\n").replace('"', '\\"')
    call = f'{{tool: write_to_file, arguments: {{path: report.py, content: "{content}"}}}}'
    return f"- calls: [{call}]\n  {USAGE}\n"


def says(text: str) -> str:
    return f"- say: {text}\n  {USAGE}\n"


class Evaluation:
    """Runs of `evaluate.py` with one folder for results."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.out = folder / "out"

    def run(self, *arguments: str) -> int:
        return main([*arguments, "--out", str(self.out)])

    def scripted(self, script: str, *arguments: str, task: str = TASK) -> int:
        file = self._folder / "script.yaml"
        file.write_text(script, encoding="utf-8")
        model = ["--provider", "scripted", "-m", str(file)]
        return self.run(*model, "--only", task, *arguments)

    def agent(self, code: str, *arguments: str, task: str = TASK) -> int:
        """An agent that is a Python program; `{prompt}` and the like are filled in."""
        command = f"{sys.executable} -c {shlex.quote(code)}"
        return self.run("--agent", command, "--only", task, *arguments)

    def trials(self) -> list[Trial]:
        return read_trials(self.out / RESULTS)

    def the_trial(self) -> Trial:
        (trial,) = self.trials()
        return trial


@pytest.fixture
def evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Evaluation:
    monkeypatch.delenv("ROOKERY_EVAL_MODEL", raising=False)
    return Evaluation(tmp_path)


def test_a_solved_task_is_recorded_with_its_requests_and_tokens(
    evaluation: Evaluation, capsys: pytest.CaptureFixture[str]
):
    assert evaluation.scripted(READS + writes(FIXED) + says("Done.")) == 0
    trial = evaluation.the_trial()
    assert (trial.solved, trial.failure, trial.ending, trial.exit_code) == (True, "", "done", 0)
    assert trial.usage == Usage(requests=3, tokens_in=300, tokens_out=60, cached=180)
    assert trial.changed == ["report.py"]
    assert "solved: 1 of 1 (100 %)" in capsys.readouterr().out
    folder = evaluation.out / "trials" / f"{TASK}-1"
    assert (folder / "stdout.txt").read_text() == "Done.\n"
    assert "if numbers else 0.0" in (folder / "changes.diff").read_text()
    assert (folder / "workspace" / "report.py").read_text() == FIXED
    assert list(folder.glob("home/data/tasks/*/journal.jsonl"))


@pytest.mark.parametrize(
    ("task", "code", "failure"),
    [
        ("py-answer-port", "print('The port is 7431.')", ""),
        ("py-answer-port", "print('The port is 8080.')", "wrong result"),
        ("py-answer-port", "pass", "answer missing"),
        (TASK, "print('It works now.')", "unchanged"),
        (TASK, "open('report.py', 'w').write('def average(:')", "broken syntax"),
        ("py-answer-port", "open('README.md', 'w'); print(7431)", "forbidden change"),
        (TASK, "raise SystemExit(5)", "refused"),
        (TASK, "raise SystemExit(7)", "stalled"),
        (TASK, "raise SystemExit(1)", "failed"),
        (TASK, "open('report.py', 'w'); raise SystemExit(7)", "wrong result"),
        (TASK, "open('new.json', 'w').write('{{')", "broken syntax"),
    ],
)
def test_what_an_agent_left_behind_decides_the_kind_of_failure(
    evaluation: Evaluation, task: str, code: str, failure: str
):
    evaluation.agent(code, task=task)
    trial = evaluation.the_trial()
    assert (trial.failure, trial.solved) == (failure, not failure)


def test_settings_reach_rookery(evaluation: Evaluation, tmp_path: Path):
    settings = tmp_path / "one.toml"
    settings.write_text("max_requests = 1\n", encoding="utf-8")
    evaluation.scripted(READS * 3 + says("Done."), "--settings", str(settings))
    assert evaluation.the_trial().failure == "limit reached"


def test_an_agent_that_hangs_is_killed(evaluation: Evaluation):
    evaluation.agent("import time; time.sleep(600)", "--seconds", "1")
    trial = evaluation.the_trial()
    assert (trial.failure, trial.ending, trial.exit_code) == ("timeout", "timeout", None)


@pytest.mark.parametrize(
    "code",
    ["raise ValueError('{prompt}')", "import os; os.kill(os.getpid(), 9)"],
    ids=["exception", "signal"],
)
def test_a_crash_is_recorded_as_a_crash(evaluation: Evaluation, code: str):
    evaluation.agent(code)
    trial = evaluation.the_trial()
    assert (trial.failure, trial.ending, trial.usage) == ("crash", "crash", None)


def test_processes_that_an_agent_leaves_behind_are_killed(evaluation: Evaluation, tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    code = f"import subprocess; subprocess.Popen(['sleep', '600'], stdout=open({str(pipe)!r}, 'w'))"
    evaluation.agent(code)
    assert select.select([reader], [], [], LONG)[0]  # nothing holds the other end
    os.close(reader)


def test_an_interrupted_evaluation_continues_with_the_tasks_that_are_left(evaluation: Evaluation):
    agent = f"open('report.py', 'w').write({FIXED!r})"
    evaluation.agent(agent)
    first = evaluation.the_trial()
    with (evaluation.out / RESULTS).open("ab") as results:
        results.write(b'{"task": "py-fix-med')  # killed while it wrote
    evaluation.agent(agent, "py-fix-median")
    assert evaluation.trials()[0] == first
    assert [trial.task for trial in evaluation.trials()] == [TASK, "py-fix-median"]


def test_each_round_has_its_own_seed(evaluation: Evaluation):
    evaluation.agent("print('{seed}')", "--seed", "7", "--repeat", "2")
    assert [(trial.round, trial.seed) for trial in evaluation.trials()] == [(1, 7), (2, 8)]
    outputs = [evaluation.out / "trials" / f"{TASK}-{number}" / "stdout.txt" for number in (1, 2)]
    assert [file.read_text() for file in outputs] == ["7\n", "8\n"]


def test_results_of_different_agents_are_not_mixed(
    evaluation: Evaluation, capsys: pytest.CaptureFixture[str]
):
    evaluation.agent("print('one')")
    assert evaluation.agent("print('two')") == 2
    assert "Give another folder with --out." in capsys.readouterr().err


def test_a_comparison_shows_what_became_better(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    before, after = Evaluation(tmp_path / "a"), Evaluation(tmp_path / "b")
    for each, code in ((before, "pass"), (after, f"open('report.py', 'w').write({FIXED!r})")):
        each.agent(code)
    files = [str(each.out / RESULTS) for each in (before, after)]
    capsys.readouterr()
    assert main(["--compare", *files]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith(TASK)]
    assert row.split()[1:4] == ["unchanged", "solved", "better"]


def test_an_evaluation_without_a_model_says_what_to_give(
    evaluation: Evaluation, capsys: pytest.CaptureFixture[str]
):
    assert evaluation.run() == 2
    assert "--model-file" in capsys.readouterr().err
