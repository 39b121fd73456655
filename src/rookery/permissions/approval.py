"""Approval by settings and by the rules a user added with "always allow".

A rule for a command, a host or the web is stored in the user's files, never in a project, and lasts
30 days. It covers exactly one command text in one folder of one workspace, one host that commands
reach, or the pages of one origin. Rules for edits, MCP
tools and sub-tasks end with the task. Actions that always need approval cannot have a rule, so they
are checked again every time.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import anyio.to_thread
from msgspec import Struct

from rookery.core.asks import AskKind, Decision, Ruling, allow, ask, deny
from rookery.core.blocks import ToolCall
from rookery.core.facts import Change
from rookery.core.modes import Level
from rookery.engine.ports.actions import Action, Deed, Judgement
from rookery.engine.ports.hooks import Hook, RuleBook
from rookery.engine.ports.workspace import Place
from rookery.errors import CommandRejected, ToolError
from rookery.permissions.trust import FolderMark
from rookery.platform.disk import KeptList

if TYPE_CHECKING:
    from rookery.core.queries import KnownRule

EMPTY = hashlib.sha256(b"").hexdigest()

DAYS = 30
RULE_LIFETIME_MS = DAYS * 24 * 60 * 60 * 1000
_KEPT = ("command", "prefix", "host", "web")
_WEB = "web "
PLANNING = (
    "At the level plan, only reading is allowed until the user approves a plan. Submit one with "
    "present_plan."
)


class ApprovalGate(Hook, Struct):
    """Allows reads, and what the level, the settings or a stored rule allow. While the user wants
    a plan, everything but reading is denied.

    Emptying a file always asks, because it is rarely intended.
    """

    rules: RuleBook
    level: Callable[[], Level]
    can_be_offline: Callable[[], bool] = lambda: False
    """Whether a sandbox can start commands without network."""
    edits: bool = False
    modes: bool = False
    children: bool = False

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        level = self.level()
        works = any(agent.worktree for agent in action.agents)
        if level is Level.PLAN and (action.may_change_files or works):
            return deny(PLANNING)
        if any(change.before and change.after == EMPTY for change in action.changes):
            return ask("It would delete everything in a file.")
        if self._allowed(action, level):
            return allow()
        if level is Level.SANDBOXED and action.command and not action.external:
            offline = await anyio.to_thread.run_sync(self.can_be_offline)
            return Ruling(Decision.ALLOW, offline=True) if offline else Ruling()
        return Ruling()

    def _allowed(self, action: Action, level: Level) -> bool:
        more = action.command or action.external or action.delegates or action.mode
        only_edits = bool(action.changes) and not more
        return (
            action.is_read_only
            or level is Level.AUTO
            or (self.edits and only_edits)
            or (level.edits_freely and only_edits and all(each.after for each in action.changes))
            or (self.modes and bool(action.mode) and not action.changes_things)
            or (self.children and action.delegates)
            or self.rules.allows(action)
        )


class AllowRule(Struct, frozen=True, kw_only=True):
    """One allowed action in one workspace. `expires` is in milliseconds since the epoch. A rule
    without it ends with the task, and its `command` describes what it allows."""

    tool: Literal["command", "prefix", "edits", "mcp", "subtasks", "host", "web"]
    workspace: FolderMark
    command: str = ""
    cwd: str = ""
    expires: int = 0

    @property
    def words(self) -> str:
        if self.tool == "edits":
            return f"edits of files in {self.workspace.path}, until this session ends"
        if self.tool == "host":
            return f"commands in {self.workspace.path} may reach {self.command}, for {DAYS} days"
        if self.tool == "web":
            return f"{self.command} in {self.workspace.path}, for {DAYS} days"
        if self.tool == "prefix":
            begin = f"commands in {self.workspace.path} that begin with these words"
            return f"{self.command} …: {begin}, for {DAYS} days"
        if self.tool != "command":
            return f"{self.command}, until this session ends"
        where = f"{self.cwd} of {self.workspace.path}" if self.cwd else self.workspace.path
        return f"exactly this command in {where}, for {DAYS} days: {self.command}"

    @property
    def what(self) -> tuple[str, FolderMark, str, str]:
        """What it allows, whenever it expires."""
        return self.tool, self.workspace, self.command, self.cwd

    @property
    def id(self) -> str:
        """A short name to remove the rule by."""
        parts = (self.tool, self.workspace.path, self.command, self.cwd)
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:6]

    def holds(self, now: int) -> bool:
        """Whether the rule is in force: not expired and not dated too far ahead."""
        return now < self.expires <= now + RULE_LIFETIME_MS


class AllowRules:
    """The rules of one task; implements the port `RuleBook`. `place` looks up a path in the task's
    workspace, `now` is the clock in milliseconds."""

    def __init__(
        self,
        file: Path,
        workspace: Path,
        *,
        place: Callable[[str], Place],
        now: Callable[[], int],
        prefix_of: Callable[[Judgement], str] = lambda judged: "",
    ) -> None:
        """`prefix_of` returns the words that a rule for similar commands would begin with; empty
        if there can be none."""
        self._prefix_of = prefix_of
        self._kept = KeptList(file, AllowRule)
        self._workspace = FolderMark.of(workspace)
        self._place = place
        self._now = now
        self._task_rules: list[AllowRule] = []
        self._hosts: dict[str, None] = {}

    def allows(self, action: Action) -> bool:
        rule = self._rule(action)
        if rule is None:
            return False
        kept = stored_rules(self._kept.file, self._now())
        return any(old.what == rule.what for old in (*self._task_rules, *kept))

    def rule_for(self, action: Action) -> str:
        rule = self._rule(action)
        return rule.words if rule else ""

    def add(self, action: Action) -> None:
        """Raises `CommandRejected` if the action cannot have a rule, `StorageError` if the rule
        could not be stored."""
        rule = self._rule(action)
        if rule is None:
            raise CommandRejected("This always needs approval, so no rule was added.")
        if rule.tool in _KEPT:
            self._keep([rule])
        else:
            self._task_rules.append(rule)

    def prefix_for(self, action: Action) -> str:
        rule = self._prefix_rule(action)
        return rule.words if rule else ""

    def add_prefix(self, action: Action) -> None:
        """Raises the same as `add`."""
        rule = self._prefix_rule(action)
        if rule is None:
            raise CommandRejected("Commands like this always need approval, so no rule was added.")
        self._keep([rule])

    def prefixes(self) -> Sequence[str]:
        return [rule.command for rule in self._ours() if rule.tool == "prefix"]

    def listed(self) -> "Sequence[KnownRule]":
        from rookery.core.queries import KnownRule

        rules = dict.fromkeys((*self._task_rules, *self._ours()))
        return [KnownRule(id=rule.id, text=rule.words) for rule in rules]

    def remove(self, rule_id: str) -> str:
        """Raises `CommandRejected` if there is no such rule, `StorageError` if it stays."""
        found = [rule for rule in (*self._task_rules, *self._ours()) if rule.id == rule_id]
        if not found:
            raise CommandRejected(f"No such rule: {rule_id}. /permissions lists all.")
        self._task_rules = [rule for rule in self._task_rules if rule.id != rule_id]
        self._hosts.pop(found[0].command if found[0].tool == "host" else "", None)
        remove_rule(self._kept.file, rule_id)
        return found[0].words

    def _ours(self) -> list[AllowRule]:
        kept = stored_rules(self._kept.file, self._now())
        return [rule for rule in kept if rule.workspace == self._workspace]

    def hosts(self) -> Sequence[str]:
        return [*self._hosts, *(rule.command for rule in self._ours() if rule.tool == "host")]

    def rule_for_hosts(self, hosts: Sequence[str]) -> str:
        if self._kept.problem or not hosts:
            return ""
        return self._stored_rule("host", ", ".join(hosts)).words

    def allow_hosts(self, hosts: Sequence[str], *, always: bool) -> None:
        self._hosts.update(dict.fromkeys(hosts))
        if always:
            self._keep([self._stored_rule("host", host) for host in hosts])

    def _prefix_rule(self, action: Action) -> AllowRule | None:
        """None where not even exactly this command could have a rule."""
        if action.judgement is None or self._command_rule(action) is None or action.external:
            return None
        prefix = "" if action.judgement.needs_keys else self._prefix_of(action.judgement)
        return self._stored_rule("prefix", prefix) if prefix else None

    def _web_rule(self, action: Action) -> AllowRule | None:
        if self._kept.problem or action.changes or action.command:
            return None
        about = action.external.removeprefix(_WEB)
        engine = about.removeprefix("search ")
        what = f"web searches with {engine}" if engine != about else f"web pages of {about}"
        return self._stored_rule("web", what)

    def _stored_rule(self, tool: Literal["prefix", "host", "web"], about: str) -> AllowRule:
        expires = self._now() + RULE_LIFETIME_MS
        return AllowRule(tool=tool, workspace=self._workspace, command=about, expires=expires)

    def _keep(self, rules: Sequence[AllowRule]) -> None:
        now, new = self._now(), [rule.what for rule in rules]

        def is_kept(old: AllowRule) -> bool:
            return old.holds(now) and old.what not in new

        self._kept.update(lambda kept: [*filter(is_kept, kept), *rules])

    def _rule(self, action: Action) -> AllowRule | None:
        if action.ask_as is AskKind.USE_MCP_SERVER:
            return self._mcp_rule(action)
        if action.external.startswith(_WEB):
            return self._web_rule(action)
        if action.external or (action.judgement and action.judgement.needs_keys):
            return None
        if action.child:
            return self._subtask_rule(action)
        if action.command and not action.changes:
            return self._command_rule(action)
        if action.changes and not action.command and all(map(self._is_plain_edit, action.changes)):
            return AllowRule(tool="edits", workspace=self._workspace)
        return None

    def _mcp_rule(self, action: Action) -> AllowRule | None:
        """A rule for the tool with any arguments; None if the call has other notes."""
        server, tool = action.payload.get("serverName"), action.payload.get("toolName")
        only_this = action.external == f"mcp {server} {tool}" and not action.command
        unremarkable = all(note.startswith("arguments: ") for note in action.notes)
        if not tool or action.changes or not (only_this and unremarkable):
            return None
        return self._task_rule("mcp", f"every call of {tool!r} of the MCP server {server!r}")

    def _subtask_rule(self, action: Action) -> AllowRule | None:
        """The notes about the mode are part of the rule: the same mode may mean more from another
        one."""
        if action.changes or action.command or not action.payload.get("mode"):
            return None
        about = " ".join(action.notes)
        allowed = f"sub-tasks in {action.payload['mode']} mode"
        return self._task_rule("subtasks", f"{allowed} ({about})" if about else allowed)

    def _task_rule(self, tool: Literal["mcp", "subtasks"], words: str) -> AllowRule:
        return AllowRule(tool=tool, workspace=self._workspace, command=words)

    def _command_rule(self, action: Action) -> AllowRule | None:
        judged = action.judgement
        if judged is None or judged.dangers or any(target.outside for target in judged.targets):
            return None
        if self._kept.problem:
            return None
        places = [(target.path, target.deed is not Deed.READ) for target in judged.targets]
        if not all(self._is_ordinary(path, changed) for path, changed in places):
            return None
        if action.cwd and not self._is_ordinary(action.cwd, changed=False):
            return None
        return AllowRule(
            tool="command",
            workspace=self._workspace,
            command=action.template or action.command,
            cwd=action.cwd,
            expires=self._now() + RULE_LIFETIME_MS,
        )

    def _is_plain_edit(self, change: Change) -> bool:
        """Whether the edit leaves the file non-empty. "Allow edits" does not cover losing files."""
        empties = change.before and change.after == EMPTY
        return bool(change.after) and not empties and self._is_ordinary(change.path, changed=True)

    def _is_ordinary(self, path: str, changed: bool) -> bool:
        """Whether no rule demands approval for this file every time."""
        try:
            place = self._place(path)
        except ToolError:
            return False
        special = place.outside or place.ignored or place.credential
        return not (special or (changed and place.protected))


def stored_rules(file: Path, now: int) -> list[AllowRule]:
    """The rules on disk that are in force; none if the file is damaged. Only rules for commands,
    hosts and the web are stored."""
    kept = KeptList(file, AllowRule).believed()
    return [rule for rule in kept if rule.tool in _KEPT and rule.holds(now)]


def problem_with_rules(file: Path) -> str:
    """Why the stored rules cannot be used, as a sentence; empty if they can."""
    return KeptList(file, AllowRule).problem


def remove_rule(file: Path, rule_id: str) -> int:
    """Delete the stored rules with this id and return their number. Raises `StorageError`."""
    kept = KeptList(file, AllowRule)
    found = [rule for rule in kept.read() if rule.id == rule_id]
    if found:
        kept.update(lambda rules: [rule for rule in rules if rule.id != rule_id])
    return len(found)


def clear_rules(file: Path) -> int:
    """Delete all stored rules and return their number. Raises `StorageError`."""
    kept = KeptList(file, AllowRule)
    count = len(kept.read())
    kept.update(lambda _: ())
    return count
