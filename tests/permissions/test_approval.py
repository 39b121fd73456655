"""Standing rules say exactly what they cover, and cover nothing else."""

import json
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.facts import Change
from rookery.engine.ports.actions import Action, Deed, Judgement, Target
from rookery.engine.ports.workspace import Place
from rookery.errors import CommandRejected, StorageError, ToolError
from rookery.permissions.approval import (
    RULE_LIFETIME_MS,
    AllowRules,
    clear_rules,
    problem_with_rules,
    stored_rules,
)
from rookery.permissions.trust import FolderMark
from support.actions import never

NOW = 1_800_000_000_000
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

PLACES = {
    "AGENTS.md": Place("AGENTS.md", protected="it instructs the agent"),
    "/etc/hosts": Place("/etc/hosts", outside=True),
    "secret.txt": Place("secret.txt", ignored=True),
    ".env": Place(".env", credential=True),
}


def place(path: str) -> Place:
    if path == "bad\0path":
        raise ToolError("This is no path.")
    return PLACES.get(path, Place(path))


class Book:
    """A task's rules, with a clock that can be set."""

    def __init__(self, folder: Path) -> None:
        self.now = NOW
        self.file = folder / "config" / "allowed.json"
        self.root = folder / "project"
        self.root.mkdir(exist_ok=True)
        self.rules = self.for_another_task()

    def for_another_task(self, root: Path | None = None) -> AllowRules:
        return AllowRules(self.file, root or self.root, place=place, now=lambda: self.now)


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(tmp_path)


def command(text: str, cwd: str = "", **judged: Any) -> Action:
    return Action(title="Run", perform=never, command=text, cwd=cwd, judgement=Judgement(**judged))


def edit(*changes: Change, **more: Any) -> Action:
    return Action(title="Edit", perform=never, changes=changes, **more)


def mcp(external: str, *notes: str, **payload: str) -> Action:
    return Action(
        title="Call",
        perform=never,
        external=external,
        ask_as=AskKind.USE_MCP_SERVER,
        notes=notes,
        payload={"type": "use_mcp_tool", **payload},
    )


def call(server: str, tool: str, arguments: str = "{}") -> Action:
    exact = f"arguments: {arguments}"
    return mcp(f"mcp {server} {tool}", exact, serverName=server, toolName=tool)


def subtask(mode: str, task_id: str = "t", *notes: str) -> Action:
    payload = {"tool": "newTask", "mode": mode, "content": "do it", "todos": []}
    return Action(title="Begin", perform=never, child=task_id, notes=notes, payload=payload)


TEST = command("npm test")
EDIT = edit(Change(path="a.py", before="1", after="2"))
CREATE = edit(Change(path="b.py", after="2"))


def test_a_command_is_allowed_once_its_rule_is_added(book: Book):
    assert not book.rules.allows(TEST)
    assert book.rules.rule_for(TEST) == (
        f"exactly this command in {book.root}, for 30 days: npm test"
    )
    assert not book.rules.allows(TEST)
    book.rules.add(TEST)
    assert book.rules.allows(TEST)
    assert book.for_another_task().allows(TEST)


def test_a_rule_for_a_command_of_the_settings_covers_every_file_but_no_danger(book: Book):
    one, other, hostile = (
        replace(command(f"fmt {file}", dangers=why), template="fmt {file}")
        for file, why in (("a.py", ()), ("b.py", ()), ("c.py", ("It deletes everything.",)))
    )
    assert book.rules.rule_for(one).endswith("for 30 days: fmt {file}")
    book.rules.add(one)
    assert book.rules.allows(other)
    assert not book.rules.allows(hostile)
    assert not book.rules.allows(command("fmt a.py"))


def test_the_rule_names_the_folder_it_is_for(book: Book):
    assert book.rules.rule_for(command("make\nall", "web")) == (
        f"exactly this command in web of {book.root}, for 30 days: make\nall"
    )


@pytest.mark.parametrize(
    "other",
    [
        command("npm test "),
        command("npm  test"),
        command("npm test; rm -r x"),
        command("npm tes"),
        command("npm"),
        command("NPM TEST"),
        command("npm test", "web"),
        EDIT,
    ],
    ids=lambda action: action.command or action.title,
)
def test_a_rule_allows_only_the_exact_command(book: Book, other: Action):
    book.rules.add(TEST)
    assert not book.rules.allows(other)


def test_each_workspace_has_its_own_rules(book: Book, tmp_path: Path):
    book.rules.add(TEST)
    other = tmp_path / "other"
    other.mkdir()
    assert not book.for_another_task(other).allows(TEST)
    assert not book.for_another_task(tmp_path).allows(TEST)


def test_a_folder_that_replaces_the_workspace_inherits_no_rule(book: Book):
    book.rules.add(TEST)
    book.root.rmdir()
    book.root.mkdir()
    assert not book.for_another_task().allows(TEST)


def test_a_rule_expires_after_thirty_days(book: Book):
    book.rules.add(TEST)
    book.now += RULE_LIFETIME_MS - 1
    assert book.rules.allows(TEST)
    book.now += 1
    assert not book.rules.allows(TEST)
    book.rules.add(command("make"))
    assert [rule["command"] for rule in json.loads(book.file.read_text())] == ["make"]


def test_adding_a_rule_again_extends_it_without_a_duplicate(book: Book):
    book.rules.add(TEST)
    book.now += 1000
    book.rules.add(TEST)
    assert [rule.expires for rule in stored_rules(book.file, book.now)] == [
        NOW + 1000 + RULE_LIFETIME_MS
    ]


def test_a_rule_with_an_impossible_expiry_is_ignored(book: Book):
    book.rules.add(TEST)
    (rule,) = json.loads(book.file.read_text())
    book.file.write_text(json.dumps([rule | {"expires": NOW + RULE_LIFETIME_MS + 1}]))
    assert not book.rules.allows(TEST)
    assert stored_rules(book.file, NOW) == []


def write(path: str) -> dict[str, Any]:
    return {"targets": (Target(Deed.WRITE, path),)}


ALWAYS_ASKED = {
    "dangerous": command("git push --force", dangers=("it overwrites history",)),
    "outside": command("rm /etc/hosts", targets=(Target(Deed.DELETE, "/etc/hosts", True),)),
    "outside by place": command("touch x", **write("/etc/hosts")),
    "protected": command("touch x", **write("AGENTS.md")),
    "kept from the agent": command("cat x", targets=(Target(Deed.READ, "secret.txt"),)),
    "credential": command("cat x", targets=(Target(Deed.READ, ".env"),)),
    "no path": command("touch x", **write("bad\0path")),
    "folder outside": command("make", "/etc/hosts"),
    "leaves the sandbox": Action(
        title="Run", perform=never, command="gh", judgement=Judgement(needs_keys=True)
    ),
    "not judged": Action(title="Run", perform=never, command="make"),
    "external": Action(title="Fetch", perform=never, external="https://example.org"),
    "external command": Action(
        title="Run", perform=never, command="make", external="x", judgement=Judgement()
    ),
    "command that also edits": Action(
        title="Run",
        perform=never,
        command="make",
        judgement=Judgement(),
        changes=[Change(path="a", after="1")],
    ),
    "reading": Action(title="Read", perform=never, reads=["a"]),
    "edit of what is protected": edit(Change(path="AGENTS.md", before="1", after="2")),
    "edit outside": edit(Change(path="/etc/hosts", before="1", after="2")),
    "edit of a credential": edit(Change(path=".env", before="1", after="2")),
    "one of two edits": edit(*EDIT.changes, Change(path="AGENTS.md", before="1", after="2")),
    "deleting": edit(Change(path="a.py", before="1")),
    "emptying": edit(Change(path="a.py", before="1", after=EMPTY)),
    "external edit": edit(*EDIT.changes, external="x"),
    "start of an MCP server": mcp("mcp one", serverName="one"),
    "resource of an MCP server": mcp("mcp one a", serverName="one", uri="a"),
    "MCP tool that has changed": mcp(
        "mcp one greet",
        "arguments: {}",
        "The server describes this tool otherwise.",
        serverName="one",
        toolName="greet",
    ),
    "MCP call that says it is another": mcp("mcp one b", serverName="one", toolName="a"),
    "other mode": Action(title="Switch", perform=never, mode="ask"),
}


@pytest.mark.parametrize("action", ALWAYS_ASKED.values(), ids=ALWAYS_ASKED)
def test_actions_that_always_ask_cannot_have_a_rule(book: Book, action: Action):
    book.rules.add(EDIT)
    assert book.rules.rule_for(action) == ""
    assert not book.rules.allows(action)
    with pytest.raises(CommandRejected, match="no rule was added"):
        book.rules.add(action)
    assert stored_rules(book.file, NOW) == []


@pytest.mark.parametrize(
    "worse",
    [
        command("npm test", dangers=("it deletes everything",)),
        command("npm test", **write("AGENTS.md")),
        command("npm test", targets=(Target(Deed.READ, "/x", True),)),
    ],
)
def test_a_rule_does_not_apply_once_its_command_is_more_dangerous(book: Book, worse: Action):
    book.rules.add(TEST)
    assert book.rules.allows(TEST)
    assert not book.rules.allows(worse)


def test_reading_a_write_protected_file_can_have_a_rule(book: Book):
    reading = command("cat AGENTS.md", targets=(Target(Deed.READ, "AGENTS.md"),))
    book.rules.add(reading)
    assert book.rules.allows(reading)


def test_edits_are_allowed_until_the_task_ends(book: Book):
    assert book.rules.rule_for(EDIT) == f"edits of files in {book.root}, until this session ends"
    book.rules.add(EDIT)
    assert book.rules.allows(EDIT)
    assert book.rules.allows(CREATE)
    assert not book.rules.allows(TEST)
    assert not book.for_another_task().allows(EDIT)
    assert not book.file.exists()


def test_a_tool_of_an_mcp_server_is_allowed_with_any_arguments(book: Book):
    greet = call("one", "greet")
    assert book.rules.rule_for(greet) == (
        "every call of 'greet' of the MCP server 'one', until this session ends"
    )
    book.rules.add(greet)
    assert book.rules.allows(call("one", "greet", '{"whom": "you"}'))
    for other in (call("one", "delete"), call("two", "greet"), ALWAYS_ASKED["external"]):
        assert not book.rules.allows(other)
    assert not book.rules.allows(ALWAYS_ASKED["MCP tool that has changed"])
    assert not book.rules.allows(ALWAYS_ASKED["start of an MCP server"])
    assert not book.for_another_task().allows(greet)
    assert not book.file.exists()


@given(names=st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=4, max_size=4))
def test_a_rule_for_one_mcp_tool_allows_no_other_tool(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
):
    book = Book(tmp_path_factory.mktemp("rules"))
    one, other = call(names[0], names[1]), call(names[2], names[3])
    book.rules.add(one)
    assert book.rules.allows(other) == (names[:2] == names[2:])


def test_sub_tasks_in_a_mode_are_allowed_until_the_task_ends(book: Book):
    assert book.rules.rule_for(subtask("ask")) == "sub-tasks in ask mode, until this session ends"
    book.rules.add(subtask("ask"))
    assert book.rules.allows(subtask("ask", "another"))
    assert not book.rules.allows(subtask("code"))
    assert not book.rules.allows(subtask("ask", "t", "Mode ask may do more than mode x: read."))
    assert not book.for_another_task().allows(subtask("ask"))
    assert not book.file.exists()


def test_a_sub_task_rule_names_the_additional_rights(book: Book):
    more = subtask("code", "t", "Mode code may do more than mode ask: edit.")
    assert book.rules.rule_for(more) == (
        "sub-tasks in code mode (Mode code may do more than mode ask: edit.), "
        "until this session ends"
    )
    book.rules.add(more)
    assert book.rules.allows(more)
    assert not book.rules.allows(subtask("code"))


def test_a_stored_rule_for_edits_is_ignored(book: Book):
    book.file.parent.mkdir(mode=0o700)
    mark = FolderMark.of(book.root)
    workspace = {name: getattr(mark, name) for name in ("path", "device", "inode", "generation")}
    for expires in (0, NOW + 1000):
        rule = {"tool": "edits", "workspace": workspace, "expires": expires}
        book.file.write_text(json.dumps([rule]))
        book.file.chmod(0o600)
        assert not problem_with_rules(book.file)
        assert not book.rules.allows(EDIT)


def test_rules_are_stored_privately_outside_the_project(book: Book):
    book.rules.add(TEST)
    assert stat.S_IMODE(book.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(book.file.parent.stat().st_mode) == 0o700
    assert list(book.root.iterdir()) == []


@pytest.mark.parametrize("content", ["", "{}", "[1]", '[{"tool": "everything"}]'])
def test_a_damaged_file_allows_nothing_and_accepts_no_rule(book: Book, content: str):
    book.rules.add(EDIT)
    book.file.parent.mkdir(mode=0o700)
    book.file.write_text(content)
    book.file.chmod(0o600)
    assert not book.rules.allows(TEST)
    assert book.rules.allows(EDIT)
    assert book.rules.rule_for(TEST) == ""
    assert "is damaged" in problem_with_rules(book.file)
    with pytest.raises(StorageError, match="is damaged"):
        clear_rules(book.file)
    assert book.file.read_text() == content


def test_a_file_that_others_can_write_allows_nothing(book: Book):
    book.rules.add(TEST)
    book.file.chmod(0o666)
    assert not book.rules.allows(TEST)
    assert "Other users can access" in problem_with_rules(book.file)


def test_all_rules_can_be_forgotten(book: Book):
    for text in ("make", "npm test"):
        book.rules.add(command(text))
    assert clear_rules(book.file) == 2
    assert clear_rules(book.file) == 0
    assert not book.rules.allows(TEST)


def test_tasks_that_add_rules_at_once_lose_none(book: Book):
    def add(part: int) -> None:
        rules = book.for_another_task()
        for number in range(8):
            rules.add(command(f"make {part}-{number}"))

    threads = [threading.Thread(target=add, args=(part,)) for part in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stored_rules(book.file, NOW)) == 24
