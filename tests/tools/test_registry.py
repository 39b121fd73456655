"""Every tool there is, driven past the gate and around it.

All of this holds for a tool that is added too. It needs a row in `ARGUMENTS` only for an argument
that no other tool has.
"""

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rookery.core.asks import Ruling, deny
from rookery.core.blocks import ToolCall
from rookery.core.facts import Change, Ending, ToolFinished, ToolStarted
from rookery.core.limits import Limits
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.hooks import Hook
from rookery.engine.ports.tool import Tool
from rookery.errors import Denied
from rookery.tools.registry import all_tools
from support.canaries import tree
from support.each_row import each_row
from support.stage import Stage, call, finish
from support.tool_workspace import Bench

SOURCE = Path(__file__).parents[2] / "src" / "rookery"

PATCH = (
    "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** Add File: b.txt\n+x\n"
    "*** End Patch"
)
BLOCKS = "<<<<<<< SEARCH\none\n=======\ntwo\n>>>>>>> REPLACE"

ARGUMENTS: dict[str, Any] = {
    "artifact_id": "cmd-1.txt",
    "command": "touch made",
    "content": "x\n",
    "diff": BLOCKS,
    "file_path": "a.txt",
    "follow_up": [{"text": "This", "mode": None}],
    "new_string": "two",
    "old_string": "one",
    "patch": PATCH,
    "path": "a.txt",
    "question": "Which?",
    "recursive": True,
    "regex": "one",
    "result": "Done.",
    "todos": "[ ] one",
}
"""What is given for an argument, in a workspace whose file a.txt says `TEXT`."""
TEXT = "three\none\n"
OTHERWISE = {
    "list_files": {"path": "."},
    "search_files": {"path": "."},
    "write_to_file": {"path": "new.txt"},
}


def arguments_for(tool: Tool[Any]) -> dict[str, Any]:
    known = ARGUMENTS | OTHERWISE.get(tool.name, {})
    return {name: known[name] for name in tool.arguments.__struct_fields__ if name in known}


CALLS = {name: arguments_for(tool) for name, tool in all_tools().items()}
"""A realistic call of every tool."""

TOUCHES_NOTHING = {
    "ask_followup_question",
    "attempt_completion",
    "read_command_output",
    "update_todo_list",
}
"""Tools that reach neither files nor processes of the user: they need no permit for anything."""

FORGED = {
    "empty": Permit(""),
    "foreign": Permit(
        "0" * 64,
        reads=frozenset(["other.txt"]),
        changes=frozenset([Change(path="other.txt", before="", after="0" * 64)]),
    ),
}


@each_row("name", CALLS)
def test_every_tool_has_a_test_call(name: str):
    msgspec.convert(CALLS[name], all_tools()[name].arguments)
    assert CALLS[name], "give one of its arguments in ARGUMENTS"


def test_every_exception_is_a_tool():
    assert {*OTHERWISE, *TOUCHES_NOTHING} <= set(CALLS)


# ── what happens, as the interpreter itself sees it ─────────────────────────────────────

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.system"}
CHANGES = {"os.mkdir", "os.rmdir", "os.remove", "os.rename", "os.link", "os.symlink", "os.truncate"}
CALLS_OUT = {"socket.connect", "socket.bind", "socket.sendto"}
_WRITING = 0o1 | 0o2 | 0o100 | 0o1000

_heard: list[str] | None = None


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    if _heard is None:
        return
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING
    if event in STARTS | CHANGES | CALLS_OUT or writes:
        _heard.append(f"{event} {arguments[:1]}")


sys.addaudithook(_listen)


@contextmanager
def effects() -> Iterator[list[str]]:
    """Every process that is started, file that is changed and address that is called."""
    global _heard
    received: list[str] = []
    _heard = received
    try:
        yield received
    finally:
        _heard = None


def bench(folder: Path) -> Bench:
    made = Bench(folder, Limits(), answers=["This"])
    (made.root / "a.txt").write_text(TEXT)
    return made


@pytest.mark.anyio
@pytest.mark.parametrize("name", CALLS)
async def test_preparing_a_call_changes_and_starts_nothing(tmp_path: Path, name: str):
    here = bench(tmp_path)
    before = tree(tmp_path)
    with effects() as received:
        action = await here.prepare(all_tools()[name], **CALLS[name])
    assert received == []
    assert tree(tmp_path) == before
    assert here.facts == []
    assert action.title


@pytest.mark.anyio
async def test_the_audit_hook_sees_effects(tmp_path: Path):
    """Otherwise the tests around this one prove nothing."""
    here = bench(tmp_path)
    with effects() as received:
        await here.call(all_tools()["execute_command"], **CALLS["execute_command"])
    assert any(
        event.startswith(("subprocess.Popen", "os.fork", "os.posix_spawn")) for event in received
    )
    assert (here.root / "made").exists()


@pytest.mark.anyio
@pytest.mark.parametrize("forged", FORGED)
@pytest.mark.parametrize("name", sorted(set(CALLS) - TOUCHES_NOTHING))
async def test_without_its_own_permit_a_call_does_nothing(tmp_path: Path, name: str, forged: str):
    here = bench(tmp_path)
    action = await here.prepare(all_tools()[name], **CALLS[name])
    assert action.reads or action.changes or action.command, "it does nothing to TEXT: extend that"
    before = tree(here.root)
    with effects() as received, pytest.raises(Denied):
        await action.perform(FORGED[forged])
    assert tree(here.root) == before
    assert [event for event in received if event.split()[0] in STARTS] == []


@pytest.mark.anyio
async def test_a_permit_covers_only_its_own_content(tmp_path: Path):
    here = bench(tmp_path)
    tool = all_tools()["write_to_file"]
    allowed = await here.prepare(tool, path="new.txt", content="harmless\n")
    other = await here.prepare(tool, path="new.txt", content="evil\n")
    with pytest.raises(Denied):
        await other.perform(Permit(allowed.digest, changes=frozenset(allowed.changes)))
    assert not (here.root / "new.txt").exists()


# ── through the engine ──────────────────────────────────────────────────────────────────


class Witness(Hook):
    """A hook that counts calls and refuses the configured one."""

    def __init__(self, refused: str = "") -> None:
        self._refused = refused
        self.before_of: list[str] = []
        self.after_of: list[str] = []

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        self.before_of.append(call.id)
        return deny("Not this one.") if call.id == self._refused else Ruling()

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        self.after_of.append(call.id)


ANSWERS = {"ask_followup_question": ["message This"], "attempt_completion": ["yes"]}


@pytest.mark.anyio
@pytest.mark.parametrize("name", CALLS)
async def test_every_call_is_passed_to_the_hooks_once(tmp_path: Path, name: str):
    hook = Witness()
    wanted, last = call(name, **CALLS[name]), finish()
    scenes = [[wanted]] if name == "attempt_completion" else [[wanted], [last]]
    stage = staged(tmp_path, *scenes, hook=hook)
    await stage.play(*ANSWERS.get(name, []), *([] if name == "attempt_completion" else ["yes"]))
    assert hook.before_of == [each.id for [each] in scenes]
    assert set(hook.after_of) <= set(hook.before_of)


@pytest.mark.anyio
@pytest.mark.parametrize("name", CALLS)
async def test_a_call_that_a_hook_refuses_has_no_effect(tmp_path: Path, name: str):
    wanted, last = call(name, **CALLS[name]), finish()
    hook = Witness(refused=wanted.id)
    stage = staged(tmp_path, [wanted], [last], hook=hook)
    before = tree(stage.root)
    await stage.play("yes")
    ends = {f.call_id: f.ending for f in stage.facts if isinstance(f, ToolFinished)}
    assert ends[wanted.id] is Ending.DENIED
    assert [f.call_id for f in stage.facts if isinstance(f, ToolStarted)] == [last.id]
    assert stage.asks == ["completion_result"], "a refused call is not asked about"
    assert tree(stage.root) == before
    assert wanted.id not in hook.after_of


def staged(folder: Path, *scenes: list[Any], hook: Witness) -> Stage:
    stage = Stage(folder, *scenes, automatic=True, hooks=[hook])
    (stage.root / "a.txt").write_text(TEXT)
    return stage


# ── no way around ───────────────────────────────────────────────────────────────────────

FORBIDDEN = {
    *("os", "io", "shutil", "socket", "subprocess", "tempfile", "ctypes", "signal", "pty", "glob"),
    *("pathlib.Path", "anyio.open_process", "anyio.run_process", "anyio.open_file", "anyio.Path"),
    *("anyio.connect_tcp", "anyio.to_process", "urllib.request", "http.client", "httpx2", "open"),
    *("builtins", "importlib", "multiprocessing", "asyncio", "fcntl", "posix", "eval", "exec"),
}
ALLOWED = {
    "tools/registry.py": {"importlib.import_module"},
    "tools/documents/document_worker.py": FORBIDDEN,
    "tools/documents/document_text.py": {
        "anyio.open_process",
        "pathlib.Path",
        "subprocess.DEVNULL",
    },
}
"""The registry imports its tools; documents are read by a worker that is handed their bytes."""


def effects_named_in(file: Path) -> set[str]:
    """The dotted names of effects that a module uses."""
    used: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                used |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names):
                used |= {f"{module}.{alias.name}" for alias in names}
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                used.add(f"{owner}.{name}")
            case ast.Call(func=ast.Name(id=name)):
                used.add(name)
    return {name for name in used if _within(name, FORBIDDEN)}


def _within(name: str, forbidden: set[str]) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in forbidden)


def test_no_tool_touches_the_system_by_itself():
    found = {
        f"{file.relative_to(SOURCE)}: {name}"
        for file in (
            *(SOURCE / "tools").rglob("*.py"),
            *(SOURCE / "mcp").glob("*_mcp_*.py"),
            SOURCE / "governance/intent_tools.py",
        )
        for name in effects_named_in(file)
        if not _within(name, ALLOWED.get(file.relative_to(SOURCE).as_posix(), set()))
    }
    assert found == set()
