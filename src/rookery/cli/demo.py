"""`rookery demo`: a scripted model fixes a small repository with the real engine and tools."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import click

from rookery import NAME
from rookery.app.model_choice import ModelChoice
from rookery.app.task_hooks import Consent
from rookery.cli.reports import TextReport
from rookery.cli.run import AttendedTask, run_client
from rookery.cli.run_options import Run
from rookery.core.commands import OpenTask
from rookery.core.modes import Level
from rookery.core.settings import Settings
from rookery.platform.user_folders import find_places, temporary_places
from rookery.storage.sessions import TaskStore

_HERE = Path(__file__).parent
TASK = "The tests of this repository fail. Find out why, fix the code, and show that they pass."
STOPPED = 128
"""Exit codes above it mean that a signal ended the run."""


@click.command()
@click.option("--keep", is_flag=True, help="Keep the demo's repository.")
def command(keep: bool) -> int:
    """Watch a scripted model fix a small repository with the real engine and tools."""
    folder = Path(tempfile.mkdtemp(prefix=f"{NAME}-demo-"))
    workspace = folder.resolve() / "shop"
    try:
        code, outcome = _run_demo(workspace)
    except KeyboardInterrupt:
        code, outcome = STOPPED + signal.SIGINT, "Stopped."
    finally:
        if not keep:
            shutil.rmtree(folder)
    where = f"The repository is kept in {workspace}." if keep else "The repository was removed."
    print(f"\n{outcome} {where}")
    if code < STOPPED:
        print(f"\n{_next_steps(_command_as_run())}", end="")
    return code


def _run_demo(workspace: Path) -> tuple[int, str]:
    """Run the demo. Return the exit code and the outcome as a sentence."""
    shutil.copytree(
        _HERE / "demo_repository", workspace, ignore=shutil.ignore_patterns("__pycache__")
    )
    print(f"The model in this demo is a script; everything else is real. Workspace: {workspace}")
    print(f"Task: {TASK}\n", flush=True)
    settings = Settings(approval="auto")
    choice = ModelChoice("scripted", str(_HERE / "demo_script.yaml"), None, None)
    with temporary_places(find_places(os.environ)) as places:
        run = Run(
            settings=settings,
            choice=choice,
            store=TaskStore(places),
            workspace=workspace,
            first=OpenTask(task_id=str(uuid.uuid4()), text=TASK),
            consent=Consent(level=Level.AUTO, trusted=True),
            places=places,
        )
        report = TextReport(run, out=sys.stdout, shows_result=True, resumable=False)
        code = run_client(run, AttendedTask(run, report))
    if code > STOPPED:
        return code, "Stopped."
    tests = subprocess.run(
        [sys.executable, "-m", "unittest", "-q"], cwd=workspace, capture_output=True, check=False
    )
    outcome = "The tests pass." if tests.returncode == 0 else "The tests still fail."
    return code or tests.returncode, outcome


def _next_steps(command: str) -> str:
    return f"""\
To work with a real model:
  {command} auth anthropic     stores your key; or openai, openrouter, …
  {command} models             lists models, also local ones, which need no key
  {command} -w your/folder "say what to do"
"""


def _command_as_run() -> str:
    """Return the command to run this program again from the current folder."""
    if shutil.which(NAME):
        return NAME
    program = Path(sys.argv[0])
    if program.name == "__main__.py":
        return shlex.join([_relative(Path(sys.executable)), "-m", NAME])
    return shlex.quote(_relative(program))


def _relative(program: Path) -> str:
    try:
        here = Path.cwd()
    except FileNotFoundError:
        return str(program)
    return str(program.relative_to(here) if program.is_relative_to(here) else program)
