"""Real language servers look at edits of the real command, in its sandbox."""

from pathlib import Path

import pytest

from llm_server import LlmServer, call, finish
from support.model_words import received
from support.npm_servers import pyright_server, typescript_server
from support.terminal_session import Installed, at

SETTINGS = """\
[language_servers]
use = "always"
skip = ["ruff"]
seconds = 60
"""


@pytest.fixture
def rookery(tmp_path: Path) -> Installed:
    installed = Installed(tmp_path)
    (installed.home / "config" / "settings.toml").write_text(SETTINGS)
    return installed


def told(rookery: Installed, programs: Path, files: dict[str, str], *edits: object) -> list[str]:
    """The results of edits, as the model gets them. It has read all files before."""
    for name, text in files.items():
        (rookery.workspace / name).write_text(text)
    path = f"{programs}:{rookery.environ['PATH']}"
    read = [call("read_file", path=name) for name in files]
    with LlmServer(read, *([edit] for edit in edits), [finish()]) as server:
        done = rookery.run("-p", *at(server), "go", PATH=path)
    assert done.returncode == 0, done.stderr
    return [received(request) for request in server.requests[2:]]


def edit(path: str, old: str, new: str) -> object:
    return call("edit", file_path=path, old_string=old, new_string=new)


def test_pyright_reports_what_an_edit_broke_here_and_elsewhere(rookery: Installed):
    files = {
        "lib.py": 'def add(a: int, b: int) -> int:\n    return a + b\n\n\nold: int = "old"\n',
        "use.py": "from lib import add\n\nprint(add(1, 2))\n",
    }
    results = told(
        rookery,
        pyright_server(),
        files,
        edit("use.py", "add(1, 2)", 'add(1, "2")'),
        edit("use.py", 'add(1, "2")', "add(1, 2)"),
        edit("lib.py", "b: int", "b: bytes"),
    )
    assert "use.py:3:14: error: Argument of type" in results[0]
    assert "[Pyright reportArgumentType]" in results[0]
    assert "lib.py" not in results[0]
    assert results[1].endswith("1 problem fewer than before this edit.")
    assert "lib.py:2:12: error: Operator" in results[2]
    assert "1 new error in 1 other file:\nuse.py:3:14: error: Argument of type" in results[2]
    assert "old: int" not in results[2]


def test_typescript_reports_what_an_edit_broke_here_and_elsewhere(rookery: Installed):
    files = {
        "tsconfig.json": '{"compilerOptions": {"strict": true, "noEmit": true}}\n',
        "lib.ts": (
            "export function add(a: number, b: number): number {\n"
            '  return a + b;\n}\nexport const old: number = "old";\n'
        ),
        "use.ts": 'import { add } from "./lib";\nconsole.log(add(1, 2));\n',
    }
    results = told(
        rookery,
        typescript_server(),
        files,
        edit("use.ts", "add(1, 2)", 'add(1, "2")'),
        edit("use.ts", 'add(1, "2")', "add(1, 2)"),
        edit("lib.ts", "b: number", "b: string"),
    )
    assert "use.ts:2:20: error: Argument of type" in results[0]
    assert "[typescript 2345]" in results[0]
    assert "lib.ts" not in results[0]
    assert "lib.ts:2:3: error: Type 'string' is not assignable" in results[2]
    assert "1 new error in 1 other file:\nuse.ts:2:20: error:" in results[2]
