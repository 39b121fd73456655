"""`rookery trust`: trusted folders and the rules that apply in them."""

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TextIO

import click

from rookery import NAME, PROJECT_FOLDER
from rookery.core.text.terminal_text import visible_line
from rookery.errors import SettingsError, StorageError, ToolError
from rookery.permissions.approval import (
    AllowRule,
    clear_rules,
    problem_with_rules,
    remove_rule,
    stored_rules,
)
from rookery.permissions.trust import TrustStore, never_trusted
from rookery.platform.user_folders import Places, find_places

APPLIED_FILES = {
    f"{PROJECT_FOLDER}/settings.toml": "settings",
    f"{PROJECT_FOLDER}/mcp.json": "programs to start",
    f"{PROJECT_FOLDER}/hooks": "programs to start",
    f"{PROJECT_FOLDER}/tools": "programs to start",
    f"{PROJECT_FOLDER}/rules": "instructions",
    f"{PROJECT_FOLDER}/modes": "modes",
    f"{PROJECT_FOLDER}/commands": "commands",
    f"{PROJECT_FOLDER}/skills": "instructions",
    ".roo": "rules, modes, programs to start",
    ".roomodes": "modes",
    ".clinerules": "instructions",
    "AGENTS.md": "instructions",
    "AGENT.md": "instructions",
    "CLAUDE.md": "instructions",
    "CLAUDE.local.md": "instructions",
    ".claude": "instructions, modes, commands",
    "GEMINI.md": "instructions",
    ".github/copilot-instructions.md": "instructions",
    ".github/instructions": "instructions",
    ".cursor/rules": "instructions",
    ".cursorrules": "instructions",
    ".windsurfrules": "instructions",
    ".opencode/command": "commands",
    ".opencode/commands": "commands",
    ".mcp.json": "programs to start",
    ".orchestration": "intents",
}
"""What a folder can contain that takes effect once it is trusted."""

WHAT_TRUST_MEANS = (
    "Do you trust this folder? Until you do, nothing in it is run or changed,\n"
    "and its own settings are not applied."
)
ERASE_LINE = "\r\x1b[K"
STAYS_UNTRUSTED = f"Not trusted: read-only. To trust it: {NAME} trust"


@click.command()
@click.argument("path", type=click.Path(path_type=Path), default=".")
@click.option("--list", "listing", is_flag=True, help="List trusted folders and saved rules.")
@click.option("--forget", is_flag=True, help="Stop trusting the folder.")
@click.option("--forget-rule", metavar="ID", help="Delete one saved rule; --list shows the ids.")
@click.option("--forget-rules", is_flag=True, help="Delete all saved rules.")
def command(
    path: Path, listing: bool, forget: bool, forget_rule: str | None, forget_rules: bool
) -> int:
    """Trust a folder: the agent may run and change what is in it, and its settings apply.

    Folders inside it, above it or put in its place later are not trusted.
    """
    if listing + forget + forget_rules + (forget_rule is not None) > 1:
        raise SettingsError("Give only one of --list, --forget, --forget-rule and --forget-rules.")
    places = find_places(os.environ)
    store = TrustStore(places.trust_file)
    if listing:
        lines = _list(store, places)
    elif forget_rule is not None:
        lines = _forget_rule(places, forget_rule)
    elif forget_rules:
        lines = _forget_rules(places)
    elif forget:
        lines = _forget(store, path, places)
    else:
        lines = _trust(store, path)
    for line in lines:
        print(visible_line(line))
    return 0


def ask_trust(
    store: TrustStore, root: Path, out: TextIO, keep: Callable[[str], None] | None = None
) -> bool:
    """Ask at the terminal until the answer is yes or no, and store a yes. End of input means no.
    Text typed before the question was shown is not an answer: it goes to `keep`, or a notice says
    that it is ignored."""
    if problem := store.problem:
        print(visible_line(problem), file=out)
    if refusal := never_trusted(root):
        print(visible_line(f"{refusal} Until then it is read-only."), file=out)
        return False
    if typed := _drain_typed_text(out):
        (keep or partial(_report_ignored, out))(typed)
    print(trust_question(root), end=" ", file=out, flush=True)
    if not _agreed(out):
        print(STAYS_UNTRUSTED, file=out)
        return False
    from rookery.app.project_tools import agree_to_servers, agree_to_tools

    try:
        store.trust(root)
        agree_to_servers(root)
    except StorageError as error:
        print(visible_line(f"{error} The folder is trusted for this run only."), file=out)
    with suppress(StorageError, ToolError):  # the tools are asked about when they are called
        agree_to_tools(root)
    return True


def _agreed(out: TextIO) -> bool:
    while answer := sys.stdin.readline():
        word = answer.strip().lower()
        if word in {"y", "yes", "n", "no"}:
            return word in {"y", "yes"}
        print("Answer y or n; Ctrl-D exits:", end=" ", file=out, flush=True)
    print(file=out)
    if sys.stdin.isatty():
        raise click.exceptions.Exit(0)
    return False


def trust_question(root: Path) -> str:
    """The question, in several lines that are safe to print."""
    found = applied_files(root)
    lines = [
        visible_line(str(root)),
        *([f"It contains: {_named(found)}."] if found else []),
        f"{WHAT_TRUST_MEANS} [y/n]",
    ]
    return "\n".join(lines)


def applied_files(root: Path) -> list[str]:
    """The names of what would take effect in a folder. Reads no file."""
    return [name for name in APPLIED_FILES if os.path.lexists(root / name)]


def _named(found: list[str]) -> str:
    return ", ".join(f"{name} ({APPLIED_FILES[name]})" for name in found)


def _drain_typed_text(out: TextIO) -> str:
    """Text typed before the question was visible. Clears it from the screen."""
    if not sys.stdin.isatty():
        return ""
    import termios

    from rookery.plain.keyboard import read_typed_ahead

    typed = read_typed_ahead(sys.stdin.fileno())
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    if typed and out.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        print(ERASE_LINE, end="", file=out)
    return typed


def _report_ignored(out: TextIO, typed: str) -> None:
    print(visible_line(f"Ignored, because it was typed before the question: {typed}"), file=out)


def _trust(store: TrustStore, path: Path) -> list[str]:
    if not path.is_dir():
        raise SettingsError(f"No such folder: {path}.")
    from rookery.app.project_tools import agree_to_servers, agree_to_tools

    root = path.resolve()
    if store.trusts(root):
        return [f"{root} is already trusted.", *agree_to_tools(root)]
    if refusal := never_trusted(root):
        raise SettingsError(refusal)
    if found := applied_files(root):
        print(visible_line(f"It contains: {_named(found)}."), flush=True)
    store.trust(root)
    agree_to_servers(root)
    agree_to_tools(root)
    return [f"{root} is trusted. To undo: {NAME} trust --forget"]


def _forget(store: TrustStore, path: Path, places: Places) -> list[str]:
    known, root = store.forget(path), path.resolve()
    forgotten = f"{root} {'is no longer' if known else 'was not'} trusted."
    allowed = [rule for rule in _rules(places) if rule.workspace.path == str(root)]
    kept = (
        f"Its rules ({len(allowed)}) are kept in case you trust it again. To delete "
        f"all rules: {NAME} trust --forget-rules"
    )
    return [forgotten, kept] if allowed else [forgotten]


def _forget_rule(places: Places, rule_id: str) -> list[str]:
    if not remove_rule(places.rules_file, rule_id):
        raise SettingsError(f"No such rule: {rule_id}. List them: {NAME} trust --list")
    return ["The rule was deleted."]


def _forget_rules(places: Places) -> list[str]:
    count = clear_rules(places.rules_file)
    return [f"Rules deleted: {count}." if count else "There were no rules to delete."]


def _list(store: TrustStore, places: Places) -> list[str]:
    folders = [
        f"trusted since {_day(kept.since)}: {kept.folder.path}"
        + ("" if kept.still_there else " (removed or replaced since: no longer trusted)")
        for kept in store.all()
    ]
    allowed = [
        f"{rule.id} allowed until {_day(rule.expires)}: {rule.words}" for rule in _rules(places)
    ]
    both = (store.problem, problem_with_rules(places.rules_file))
    problems = [problem for problem in both if problem]
    return [*problems, *folders, *allowed] or ["No trusted folders and no rules."]


def _rules(places: Places) -> list[AllowRule]:
    return stored_rules(places.rules_file, time.time_ns() // 1_000_000)


def _day(ts: int) -> str:
    try:
        return datetime.fromtimestamp(ts / 1000).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return "an unknown date"
