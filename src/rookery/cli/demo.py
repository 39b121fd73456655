"""`rookery demo`: the whole product on a small repository, with a script in the model's place."""

import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import click

from rookery import NAME
from rookery.app import ModelChoice
from rookery.cli.reports import TextReport
from rookery.cli.session import Run, carry_out
from rookery.core.commands import OpenTask
from rookery.settings import Settings
from rookery.storage.places import find_places, temporary_places
from rookery.storage.tasks import TaskStore

_HERE = Path(__file__).parent
TASK = "The tests of this repository fail. Find out why, fix the code, and show that they pass."
REAL_MODEL = f"""\
To work with a real model, in your own repository:
  export ANTHROPIC_API_KEY=…    (or OPENAI_API_KEY, OPENROUTER_API_KEY)
  {NAME} "say what to do"         ({NAME} models shows local models, which need no key)
"""


@click.command()
@click.option("--keep", is_flag=True, help="Keep the repository that the demo made.")
def command(keep: bool) -> int:
    """Watch a scripted model repair a small repository with the real engine and tools."""
    folder = Path(tempfile.mkdtemp(prefix=f"{NAME}-demo-"))
    try:
        return _play(folder, keep)
    finally:
        if not keep:
            shutil.rmtree(folder)


def _play(folder: Path, keep: bool) -> int:
    workspace = folder.resolve() / "shop"
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
            automatic=True,
        )
        report = TextReport(run, out=sys.stdout, shows_result=True, resumable=False)
        code = carry_out(run, report)
    tests = subprocess.run(
        [sys.executable, "-m", "unittest", "-q"], cwd=workspace, capture_output=True, check=False
    )
    print(f"\nThe tests {'pass' if tests.returncode == 0 else 'still fail'}.", end=" ")
    print(f"The repository is kept in {workspace}." if keep else "The repository is removed.")
    print(f"\n{REAL_MODEL}", end="")
    return code or tests.returncode
