"""A real project with everything that the rules for commands can get wrong, and those rules."""

import os
import subprocess
from pathlib import Path

from msgspec import Struct

from rookery.commands.judge import CommandJudge
from rookery.commands.program_tables import readers
from rookery.commands.rules import CommandRules
from rookery.core.asks import Decision
from rookery.core.blocks import ToolCall
from rookery.core.limits import Limits
from rookery.engine.ports.actions import Action, Judgement, Outcome, Permit
from rookery.workspace.files import WorkspaceFiles

TEXTS = {
    "README.md": "# Example\nfoo\n",
    "notes.txt": "a\nb\n",
    "with space.txt": "x\n",
    "data.json": '{"name": "x", "items": [{"id": 1}]}\n',
    "secret.txt": "kept back\n",
    ".rookeryignore": "secret.txt\n",
    "src/app.py": "def main():\n    return foo()\n",
    "src/util.py": "import os\n",
    "tests/test_app.py": "def test_app(): ...\n",
    "docs/guide.md": "guide\n",
    "docs/.envrc": "export A=1\n",
    "build/a.o": "x",
    "build/b.o": "x",
    "build/deep/c.o": "x",
    "sub/inner.txt": "x\n",
}


class Bench(Struct, frozen=True):
    """The workspace, its surroundings, and the rules for its commands."""

    root: Path
    home: Path
    outside: Path
    temporary: Path
    programs: Path
    judge: CommandJudge

    def spelled(self, line: str) -> str:
        stands_for = {"⏎": "\n", "␉": "\t", "@WS@": str(self.root), "@OUT@": str(self.outside)}
        stands_for |= {"@TMP@": str(self.temporary), "@LONG@": "w" * 9_000}
        for sign, text in stands_for.items():
            line = line.replace(sign, text)
        return line


def bench(base: Path) -> Bench:
    root, home = base / "ws", base / "home"
    outside, temporary = base / "outside", base / "tmp"
    for folder in (root / "empty", home / ".ssh", home / ".aws", outside, temporary):
        folder.mkdir(parents=True)
    for name, text in TEXTS.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    (home / ".ssh" / "id_rsa").write_text("key\n", encoding="utf-8")
    (home / ".aws" / "credentials").write_text("key\n", encoding="utf-8")
    (home / ".bashrc").write_text("", encoding="utf-8")
    (outside / "marker.txt").write_text("outside\n", encoding="utf-8")
    (root / "link_in").symlink_to("src/app.py")
    (root / "link_out").symlink_to(outside)
    (root / "link_secret").symlink_to("secret.txt")
    (root / "link_keys").symlink_to(home / ".ssh")
    (root / "dangling").symlink_to("nothing")
    _make_repository(root, home)
    programs = base / "bin"
    programs.mkdir()
    for name in {row.split()[0] for row in readers()}:
        program = programs / name
        program.write_text("#!/bin/sh\n", encoding="utf-8")
        program.chmod(0o755)
    files = WorkspaceFiles(root, Limits(), home=home)
    judge = CommandJudge(
        files,
        root,
        home=home,
        hiding=files.boundaries.hiding,
        temporary=(str(temporary),),
    )
    return Bench(root, home, outside, temporary, programs, judge)


def _make_repository(root: Path, home: Path) -> None:
    quiet = {"HOME": str(home), "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"}
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], [*who, "commit", "-qm", "one"]):
        subprocess.run(["git", *arguments], cwd=root, env=quiet, check=True)


async def decision(
    judged: Judgement, command: str, *, allow: tuple[str, ...] = (), deny: tuple[str, ...] = ()
) -> Decision:
    """The decision of the rules about a command line in a trusted project."""
    rules = CommandRules(allow=allow, deny=deny, trusted=True)
    action = Action(title="Run it", perform=never, command=command, judgement=judged)
    ruling = await rules.before(ToolCall(id="c1", name="execute_command", arguments={}), action)
    return ruling.decision


async def never(permit: Permit) -> Outcome:
    raise AssertionError("nothing is run here")
