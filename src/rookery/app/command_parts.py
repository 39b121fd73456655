"""Everything that only shell commands and web pages need: part of the composition root.

It is imported and opened with the first command, because the first request needs none of it.
"""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rookery.app.briefing import added_folders, workspace_files
from rookery.checkpoints.git_repair import GitRepair
from rookery.checkpoints.git_views import GitScanner
from rookery.checkpoints.git_watch import GitWatch
from rookery.commands.judge import CommandJudge
from rookery.commands.prefixes import prefix_in
from rookery.commands.rules import CommandRules, NetworkGate
from rookery.core.facts import Effect, Noted, Reminded
from rookery.core.hosts import faulty_entries
from rookery.core.modes import Level
from rookery.core.settings import Settings
from rookery.core.undo_plan import approved_by_user, background_commands, was_started
from rookery.engine.event_log import EventLog
from rookery.engine.ports.actions import Action, GitUse, Judgement, Permit
from rookery.engine.ports.hooks import Hook, RuleBook
from rookery.engine.ports.workspace import Launch, Shell
from rookery.governance.layout import was_written
from rookery.permissions.protected_changes import (
    protected_paths,
    protected_paths_under_mount_sandbox,
)
from rookery.platform.git_folders import own_repository
from rookery.platform.git_index import checked_out
from rookery.platform.git_programs import git_programs
from rookery.platform.paths import within_any
from rookery.platform.user_folders import Places
from rookery.sandbox.confinement import SandboxOptions
from rookery.sandbox.known_hosts import KnownHosts, remotes
from rookery.sandbox.launcher import NoSandboxNotice, SandboxLauncher
from rookery.sandbox.sandbox import Sandbox
from rookery.sandbox.way_out import Egress
from rookery.workspace.files import WorkspaceFiles
from rookery.workspace.terminal import Terminal

if TYPE_CHECKING:
    from rookery.app.local_host import HostParts
    from rookery.diagnostics.languages import FoundServer


class CommandParts:
    """The parts that all tasks of a host share."""

    def __init__(self, host: "HostParts") -> None:
        settings, workspace, places, files = host.settings, host.workspace, host.places, host.files
        self._host = host
        self.sandbox = make_sandbox(settings, workspace, places)
        self.set_aside = places.data / "set-aside"
        self.git_views = GitScanner(files.boundaries.root, self.set_aside, places.checkpoints)
        self.known_hosts = KnownHosts(
            listed=settings.sandbox.hosts,
            remotes=remotes(host.git_config),
            home=Path.home(),
            workspace=workspace,
            environ=os.environ,
        )
        self.network = Egress(host.start_soon, self.known_hosts)
        launching = SandboxLauncher(
            files.boundaries, self.sandbox, lambda: self.git_views.repositories, self.network
        )
        self.shell = Terminal(workspace, settings.as_limits(), launching, host.wardens, host.shell)
        self.judge = CommandJudge(
            files,
            workspace,
            home=Path.home(),
            hiding=files.boundaries.hiding,
            leave=settings.sandbox.leave,
            writable=self.sandbox.writable,
            own_repository=partial(own_repository, str(files.boundaries.root)),
            git_programs=partial(git_programs, files.boundaries.root),
        )

    def close(self) -> None:
        self.sandbox.close()

    def confine(self, found: "FoundServer") -> Launch:
        """How to start a language server: as a command, without a network, and with the
        workspace read-only except for what it must write. Raises `ToolError`."""
        writable = found.writable(self._host.workspace.resolve()) if self.sandbox.narrows else None
        permit = Permit("language server", writable=writable)
        launcher = SandboxLauncher(
            self._host.files.boundaries, self.sandbox, lambda: self.git_views.repositories
        )
        return launcher(found.argv, permit, found.root)

    def prefix_of(self, judged: Judgement) -> str:
        """The words that a rule for commands like this one begins with; empty if none is safe."""
        return prefix_in(judged, self._host.files.boundaries.root)

    def shielded(self, effects: Sequence[Effect], expected: Collection[str]) -> Sequence[str]:
        """Return the protected files that a command changed without approval. Files that the
        host itself wrote are left out."""
        # `mounts` probes the sandbox, so it must wait for the first command
        by = protected_paths_under_mount_sandbox if self.sandbox.mounts else protected_paths
        found = [*by(effects, expected), *_git_config_files(self._host.files, effects, expected)]
        own = {e.path for e in effects if e.path in found and self._written_by_host(e)}
        return [path for path in dict.fromkeys(found) if path not in own]

    def _written_by_host(self, effect: Effect) -> bool:
        path = self._host.files.boundaries.root / effect.path
        return effect.after is not None and was_written(
            self._host.places.host_writes, path, effect.after.blob
        )

    def checked_out(self, effects: Sequence[Effect], git: GitUse, began: int) -> Collection[str]:
        """Return the changed files whose content is in the repository and cannot be lost."""
        blobs = {each.path: each.after.blob if each.after else "" for each in effects}
        known = partial(checked_out, self._host.files.boundaries.root, blobs)
        if git is GitUse.ONLY:
            return known(anywhere=True)
        if git is GitUse.NONE and self.sandbox.mounts:
            return known()
        # other programs could have written anything into the repository
        return known(before=began * 1_000_000)

    def exposes_git(self, action: Action) -> bool:
        """Whether a command could destroy what is in git's own folders."""
        # git runs the repository's hooks, filters and aliases, which the judge cannot see
        runs_git = action.judgement is not None and action.judgement.git is not GitUse.NONE
        return action.may_change_files and (runs_git or not self.sandbox.mounts)


@contextmanager
def check_shell(settings: Settings, workspace: Path, places: Places) -> Iterator[Shell]:
    """Open a shell for commands outside any task, confined as the settings say."""
    files = workspace_files(workspace, places, settings)
    with closing(make_sandbox(settings, workspace, places)) as sandbox:
        launching = SandboxLauncher(files.boundaries, sandbox)
        yield Terminal(workspace, settings.as_limits(), launching, shell=settings.commands.shell)


def check_judge(settings: Settings, workspace: Path, places: Places) -> CommandJudge:
    files = workspace_files(workspace, places, settings)
    return CommandJudge(
        files,
        workspace,
        home=Path.home(),
        hiding=files.boundaries.hiding,
        leave=settings.sandbox.leave,
        own_repository=partial(own_repository, str(files.boundaries.root)),
    )


class TaskCommands:
    """The hooks that check the commands of one task."""

    def __init__(
        self,
        host: "HostParts",
        log: EventLog,
        rules: RuleBook,
        level: Callable[[], Level],
        browsed: Callable[[], Collection[str]],
    ) -> None:
        def notify_user(text: str) -> None:
            log.append(Noted(text=text))

        parts, settings = host.commands, host.settings
        self.watch = _git_watch(host, parts, log, level)
        faulty = faulty_entries(settings.sandbox.hosts)
        network = NetworkGate(
            rules,
            knows=parts.network.knows,
            open_to_all=lambda: parts.sandbox.open_to_all,
            remotes=parts.known_hosts.remotes.names,
            browsed=browsed,
        )
        self.hooks: Sequence[Hook] = (
            self.watch,
            NoSandboxNotice(parts.sandbox, notify_user, faulty),
            *([network] if host.only_known_hosts else []),
            CommandRules(
                allow=settings.commands.allow,
                deny=settings.commands.deny,
                exactly=host.consent.run_commands,
                prefixes=rules.prefixes,
                root=host.files.boundaries.root,
                trusted=host.consent.trusted,
                confines=lambda: parts.sandbox.state.kind != "none",
            ),
        )


def _git_watch(
    host: "HostParts", parts: CommandParts, log: EventLog, level: Callable[[], Level]
) -> GitWatch:
    def notify_both(text: str) -> None:
        log.append(Noted(text=text))
        log.append(Reminded(text=f"[automatic] {text}"))

    root = host.files.boundaries.root
    return GitWatch(
        root=host.workspace.resolve(),
        aside=parts.set_aside,
        report=notify_both,
        attended=lambda: not level().runs_freely,
        running=lambda: bool(background_commands(log.events)),
        started=lambda call_id: was_started(log.events, call_id),
        approved=lambda call_id: approved_by_user(log.events, call_id),
        unconfined=lambda: parts.sandbox.state.kind == "none",
        scanner=parts.git_views,
        repair=GitRepair(root, host.places.git_copies, parts.set_aside),
        exposed=parts.exposes_git,
    )


def _git_config_files(
    files: WorkspaceFiles, effects: Sequence[Effect], expected: Collection[str]
) -> list[str]:
    """Return files named in git's configuration that a command changed without approval."""
    places = files.boundaries.obeyed_by_git.places()
    changed = (each.path for each in effects if each.path not in expected)
    return [path for path in changed if within_any(path, places)]


def make_sandbox(settings: Settings, workspace: Path, places: Places) -> Sandbox:
    added = added_folders(settings)
    return Sandbox(
        SandboxOptions(
            root=workspace,
            home=Path.home(),
            mode=settings.sandbox.use,
            network=settings.sandbox.network,
            writable=(
                *map(os.path.expanduser, settings.sandbox.writable),
                *map(str, added),
            ),
            repositories=tuple(str(each / ".git") for each in added),
            hidden=tuple(map(os.path.expanduser, settings.sandbox.hidden)),
            own=tuple(map(str, places.own_folders)),
        )
    )
