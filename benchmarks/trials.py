"""One trial: an agent works on one task in a fresh workspace, and the hidden check judges it.

The trial's folder keeps everything for later inspection: `workspace/`, `home/` with
rookery's journal, `stdout.txt`, `stderr.txt`, `changes.diff` and `check.txt`.
"""

import json
import os
import shutil
import signal
import subprocess
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from suite import Task, plain_environment, read_tree, run_check

TERMINATION_SECONDS = 5
MOST_OUTPUT = 1_000_000
TIMEOUT, CRASH, DONE = "timeout", "crash", "done"
ENDINGS = {
    0: DONE,
    2: "wrong usage",
    3: "no key",
    4: "limit reached",
    5: "refused",
    6: "question",
    7: "stalled",
    8: "rate limited",
    9: "storage",
    124: TIMEOUT,
}
"""What rookery's exit codes mean; see docs/exit-codes.md."""
TRACEBACK = "Traceback (most recent call last)"
IDENTITY = ("-c", "user.name=Suite", "-c", "user.email=suite@localhost")


class Usage(Struct, frozen=True, kw_only=True):
    """What rookery's journals say about the requests of a run."""

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cached: int = 0


class Trial(Struct, frozen=True, kw_only=True):
    """The result of one trial. Usage is None if the agent left no journal."""

    task: str
    kind: str
    round: int
    seed: int
    agent: str
    solved: bool
    failure: str
    """Why the task is not solved; empty if it is."""
    ending: str
    """How the agent ended, whether or not the task is solved."""
    exit_code: int | None
    seconds: float
    usage: Usage | None
    changed: list[str]


class Agent(Struct, frozen=True, kw_only=True):
    """A command line with `{prompt}`, `{url}`, `{model}` and `{seed}` in its words."""

    words: list[str]
    seconds: float
    values: dict[str, str] = {}
    settings: Path | None = None

    @property
    def label(self) -> str:
        """The command as it is recorded; addresses of local servers change from run to run."""
        words = self._filled({**self.values, "url": "URL", "seed": "SEED"}, "PROMPT")
        return " ".join([*words, f"(settings: {self.settings.name})"] if self.settings else words)

    def command(self, prompt: str, seed: int) -> list[str]:
        return self._filled({**self.values, "seed": str(seed)}, prompt)

    def _filled(self, values: Mapping[str, str], prompt: str) -> list[str]:
        filled = []
        for word in self.words:
            for name, value in values.items():
                word = word.replace(f"{{{name}}}", value)
            filled.append(word.replace("{prompt}", prompt))
        return filled


def run_trial(task: Task, agent: Agent, folder: Path, *, round_number: int, seed: int) -> Trial:
    if folder.exists():  # an interrupted trial
        shutil.rmtree(folder)
    workspace, home = folder / "workspace", folder / "home"
    (home / "config").mkdir(parents=True)
    if agent.settings:
        shutil.copyfile(agent.settings, home / "config" / "settings.toml")
    task.start(workspace)
    environment = {**plain_environment(), "HOME": str(home), "ROOKERY_HOME": str(home)}
    _commit(workspace, environment)
    before = read_tree(workspace)
    command = agent.command(task.described.prompt, seed)
    began = time.monotonic()
    code = _run(command, folder, environment, agent.seconds)
    seconds = time.monotonic() - began
    answer = _last_part(folder / "stdout.txt")
    problem = task.check(workspace, answer)
    (folder / "check.txt").write_text(problem, encoding="utf-8")
    _write_diff(folder, environment)
    after = read_tree(workspace)
    changed = sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n))
    ending = _ending(code, _last_part(folder / "stderr.txt"))
    failure = _failure(task, ending, workspace, changed, answer) if problem else ""
    return Trial(
        task=task.name,
        kind=task.described.kind,
        round=round_number,
        seed=seed,
        agent=agent.label,
        solved=not problem,
        failure=failure,
        ending=ending,
        exit_code=code,
        seconds=round(seconds, 1),
        usage=read_usage(home),
        changed=changed,
    )


def read_usage(home: Path) -> Usage | None:
    """Add up the requests and tokens of all journals; None if there are none."""
    journals = sorted(home.glob("data/tasks/*/journal.jsonl"))
    events = [event for journal in journals for event in _events(journal)]
    used = [event["usage"] for event in events if isinstance(event.get("usage"), dict)]
    if not journals:
        return None
    return Usage(
        requests=sum(event.get("kind") == "request_started" for event in events),
        tokens_in=sum(each.get("tokens_in", 0) for each in used),
        tokens_out=sum(each.get("tokens_out", 0) for each in used),
        cached=sum(each.get("cache_reads", 0) for each in used),
    )


def _events(journal: Path) -> Iterator[dict[str, Any]]:
    for line in journal.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError):  # a killed process leaves half a line
            yield json.loads(line.partition("\t")[0])


def _commit(workspace: Path, environment: Mapping[str, str]) -> None:
    for words in (["init", "-q"], ["add", "-A"], [*IDENTITY, "commit", "-q", "-m", "Start"]):
        subprocess.run(["git", *words], cwd=workspace, env=environment, check=True)


def _write_diff(folder: Path, environment: Mapping[str, str]) -> None:
    with (folder / "changes.diff").open("wb") as output:
        for words in (["add", "-A", "-N"], ["diff"]):
            # the agent may have broken the repository; then there is no diff to read
            subprocess.run(
                ["git", *words],
                cwd=folder / "workspace",
                env=environment,
                stdout=output,
                stderr=output,
                check=False,
            )


def _run(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float
) -> int | None:
    """Run the agent; return its exit code, or None if it had to be killed."""
    with (folder / "stdout.txt").open("wb") as out, (folder / "stderr.txt").open("wb") as err:
        process = subprocess.Popen(
            command,
            cwd=folder / "workspace",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            _signal_group(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(TERMINATION_SECONDS)
            return None
        finally:  # also processes that the agent left behind, and after Ctrl-C
            _signal_group(process.pid, signal.SIGKILL)
            process.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


def _last_part(file: Path) -> str:
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - MOST_OUTPUT))
        return opened.read().decode(errors="replace")


def _ending(code: int | None, errors: str) -> str:
    if code is None:
        return TIMEOUT
    # rookery indents the output of commands, which may well have tracebacks
    traceback = any(line.startswith(TRACEBACK) for line in errors.splitlines()[-40:])
    if code < 0 or (code == 1 and traceback):
        return CRASH
    return ENDINGS.get(code, "failed")


def _failure(task: Task, ending: str, workspace: Path, changed: Sequence[str], answer: str) -> str:
    """The order of the rules is their priority."""
    wants_words = bool(task.described.answer)
    if ending in (TIMEOUT, CRASH):
        return ending
    if task.forbidden_changes(workspace):
        return "forbidden change"
    if any(_is_broken(workspace / name) for name in changed):
        return "broken syntax"
    if ending != DONE and not changed:
        return ending
    if wants_words and not answer.strip():
        return "answer missing"
    if not wants_words and not changed:
        return "unchanged"
    return "wrong result"


def _is_broken(file: Path) -> bool:
    try:
        match file.suffix if file.is_file() else "":
            case ".py":
                compile(file.read_bytes(), file.name, "exec", dont_inherit=True)
            case ".json":
                json.loads(file.read_bytes())
            case ".toml":
                tomllib.loads(file.read_text(encoding="utf-8"))
            case ".js" | ".mjs" | ".cjs":
                return bool(run_check(["node", "--check", file.name], file.parent, {}))
    except (ValueError, SyntaxError):
        return True
    return False
