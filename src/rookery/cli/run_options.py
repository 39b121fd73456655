"""What one run needs, collected from flags, settings and stored sessions before it starts."""

import os
import uuid
from collections.abc import Sequence
from pathlib import Path

import anyio
from msgspec import Struct
from msgspec.structs import replace

from rookery import NAME
from rookery.app.briefing import BUILT_IN_MODES, ProjectNames, project_names
from rookery.app.local_host import ToolSelection, check_intent
from rookery.app.model_choice import (
    ModelChoice,
    assumption,
    choose_model,
    named_model,
    supports_reasoning,
)
from rookery.app.task_hooks import Consent
from rookery.cli.first_run import Trust, find_model, find_trust, may_act_anyway, note, trust_note
from rookery.cli.options import FrontEnd, Options
from rookery.core.blocks import Image
from rookery.core.commands import OpenTask, ReopenTask
from rookery.core.event_list import EventList
from rookery.core.facts import RequestStarted, TaskOpened
from rookery.core.folds.task_record import TaskRecord
from rookery.core.folds.task_state import TaskState
from rookery.core.limits import NOT_AT_ALL
from rookery.core.modes import GUARD, KEPT, NO_SANDBOX, Level
from rookery.core.settings import Settings
from rookery.core.text.characters import as_utf8
from rookery.core.text.terminal_text import Hiding
from rookery.errors import SettingsError
from rookery.platform.user_folders import Places
from rookery.storage.sessions import TaskStore
from rookery.storage.settings_files import FoundSettings, find_settings

FOLLOWUP_SECONDS = 60.0
DRIVEN_MISTAKE_LIMIT = 10
"""The default that programs written for the Roo CLI expect."""
_FLAGS_BY_SETTING = {
    "--followup-seconds": "--followup-timeout",
    "--mistake-limit": "--consecutive-mistake-limit",
    "--sandbox-use": "--sandbox",
    "--commands-shell": "--terminal-shell",
    "--ui-oneshot": "--oneshot",
    "--max-requests": "--max-turns",
}
"""Flags whose name differs from their setting."""


class Run(Struct, frozen=True, kw_only=True):
    settings: Settings
    choice: ModelChoice
    store: TaskStore
    workspace: Path
    first: OpenTask | ReopenTask | None
    """The first command; None if the client sends it."""
    earlier: TaskRecord = TaskRecord()
    """What is stored of a resumed task."""
    opening: str = ""
    """The first message to a resumed task."""
    draft: str = ""
    """Text typed ahead, not sent yet."""
    picks_session: bool = False
    """The user chooses the session in the full screen."""
    verbose: bool = False
    once: bool = False
    """`--print` was given."""
    person: bool = False
    """A user sits at the terminal."""
    timeout: float | None = None
    consent: Consent = Consent()
    places: Places
    workspace_flag: Sequence[str] = ()
    """The flag that selects this workspace in a later run, if one is needed."""
    notes: Sequence[str] = ()
    """Notes for the user at the start, such as one about trust."""
    tools: ToolSelection = dict

    @property
    def patience(self) -> float:
        """Seconds that a question waits for the user under auto-approve."""
        if self.settings.followup_seconds is not None:
            return self.settings.followup_seconds
        return FOLLOWUP_SECONDS if self.person else 0.0

    @property
    def task_id(self) -> str:
        assert self.first
        return self.first.task_id

    @property
    def stored(self) -> EventList:
        return self.earlier.events

    @property
    def after(self) -> int:
        return len(self.stored)

    @property
    def hide(self) -> Hiding:
        """Removes the API key from a text."""
        return Hiding([self.choice.key.reveal()] if self.choice.key else [])

    def choose(self, settings: Settings) -> ModelChoice:
        """Choose the model for settings, for a mode with its own model."""
        return choose_model(settings, os.environ, self.places.keys_file, None)


class RunFolder(Struct, frozen=True):
    """The folder of a run. Its own modes and commands count only if it is trusted."""

    places: Places
    workspace: Path
    trusted: bool
    other_agents: bool

    def names(self) -> ProjectNames:
        return project_names(
            self.places, self.workspace, trusted=self.trusted, other_agents=self.other_agents
        )

    def choose(self, settings: Settings) -> ModelChoice:
        return choose_model(settings, os.environ, self.places.keys_file, None)

    def check_mode(self, slug: str) -> None:
        """Raises `SettingsError` for an unknown mode."""
        if slug in BUILT_IN_MODES:
            return
        known = self.names()
        if slug not in known.modes:
            there = f"No such mode: {slug!r}. Available: {', '.join(known.modes)}."
            untrusted = f"Modes of this folder are used once you trust it: {NAME} trust"
            notes = known.problems if self.trusted else (*known.problems, untrusted)
            raise SettingsError(" ".join([there, *notes]))

    def check_command(self, prompt: str) -> None:
        """Raises `SettingsError` for a prompt that starts with an unknown slash command."""
        if not prompt.lstrip().startswith("/"):
            return
        from rookery.protocol.client_commands import looks_like_a_command, no_such_command

        if not looks_like_a_command(prompt):
            return
        known = [name for name, _ in self.names().commands]
        if wrong := no_such_command(prompt, known, f"{NAME} list commands lists all."):
            raise SettingsError(wrong)


def prepare(options: Options, places: Places, store: TaskStore) -> Run:
    """Collect everything a run needs. Raises `SettingsError` for what cannot work."""
    early: list[str] = []
    if options.interactive and not options.resumes:
        # a project cannot set a model, so trust makes no difference
        found = _found_settings(options, places, None, trusted=False)
        find_model(found.settings, options, places)
    trust = find_trust(options, places, early.append)
    trusted, acts_anyway = trust is Trust.YES, may_act_anyway(options, trust)
    task_id = _chosen_session(options, store) if options.resumes else ""
    earlier = _stored(options, store, task_id)
    settings = _settings(options, places, _last_request(earlier.events), trusted=trusted)
    project = RunFolder(places, options.workspace, trusted, settings.context.other_agents)
    project.check_mode(settings.mode)
    settings, choice = find_model(settings, options, places)
    if options.intent:
        check_intent(settings, options.workspace, options.intent)
    level = settings.level(once=options.once)
    commands, denied = frozenset[tuple[str, ...]](), frozenset[str]()
    if options.allowed_tools or options.disallowed_tools:
        from rookery.app.run_tools import tools_of_run

        rules = options.allowed_tools, options.disallowed_tools
        settings, commands, denied = tools_of_run(settings, *rules)
    if level is Level.SANDBOXED:
        _require_sandbox(settings, options.workspace, places)
    prompt, draft = options.prompt(), "".join(early)
    _note_ignored(options)
    _note_ignored_effort(options.reasoning_effort, settings, choice)
    project.check_command(prompt)
    first: OpenTask | ReopenTask | None = None
    if options.resumes:
        first = ReopenTask(task_id=task_id, level=_kept_level(options, earlier.state))
    elif prompt.strip() or options.front_end is FrontEnd.LINES:
        images = _images(options) if options.image else ()
        first = OpenTask(task_id="", text=prompt, images=images, mode=settings.mode)
        if options.interactive and not prompt.strip():
            from rookery.cli.first_message import FirstMessage

            first = FirstMessage(project, settings, choice).ask(draft)
        first = _checked_task(options, store, first)
    return Run(
        settings=settings,
        choice=choice,
        store=store,
        workspace=options.workspace,
        first=first,
        earlier=earlier,
        opening=prompt if options.resumes else "",
        draft=draft,
        picks_session=options.picks_session and not options.resumes,
        verbose=options.verbose,
        once=options.once,
        person=options.interactive,
        timeout=options.timeout,
        consent=Consent(
            level=level,
            keeps_level=options.interactive and options.level in KEPT,
            run_commands=commands,
            denied_tools=denied,
            trusted=trusted,
            acts_anyway=acts_anyway,
            outside=options.allow_outside,
            protected=options.allow_protected,
            mode=options.mode or "",
            attended=options.interactive or options.front_end is not FrontEnd.LINES,
            on_screen=options.front_end is FrontEnd.SCREEN,
            intent=options.intent or "",
            governance_allow=frozenset(options.governance_allow),
        ),
        places=places,
        workspace_flag=options.workspace_flag(),
        notes=[
            trust_note(options, trust, acts_anyway=acts_anyway),
            _unknown_model_note(options, settings, choice),
        ],
    )


def _chosen_session(options: Options, store: TaskStore) -> str:
    from rookery.storage.cli.session_listing import chosen_session

    if options.picks_session:
        from rookery.cli.first_message import pick_session

        return pick_session(store, options.workspace)
    return chosen_session(store, options.named_session, options.workspace)


def _images(options: Options) -> tuple[Image, ...]:
    from rookery.protocol.picture_files import load_pictures

    files = [str(path.absolute()) for path in options.image]
    images, problems = anyio.run(load_pictures, files, str(options.workspace))
    for problem in problems:
        raise SettingsError(f"--image {problem['path']}: {problem['error']}")
    return images


def _note_ignored(options: Options) -> None:
    if options.skip_permissions:
        note(f"Running as with -y. {GUARD}")
    if options.extension:
        note("Extensions are not supported; -e is ignored.")
    if options.front_end is FrontEnd.LINES and not (options.once or options.interactive):
        note("Not interactive: running as with --print. Actions that need approval are skipped.")


def _note_ignored_effort(effort: str | None, settings: Settings, choice: ModelChoice) -> None:
    """Warn if the model is not known to support reasoning."""
    if effort in (None, "unspecified", *NOT_AT_ALL) or choice.provider == "scripted":
        return
    if not supports_reasoning(settings, choice):
        note(
            f"{choice.model} is not known to support reasoning; --reasoning-effort "
            f"{effort} is ignored."
        )


def _unknown_model_note(options: Options, settings: Settings, choice: ModelChoice) -> str:
    """For the plain terminal: the full screen shows it in the session, and programs get none."""
    for_people = options.front_end is FrontEnd.LINES and options.output_format == "text"
    return assumption(settings, choice) if for_people else ""


def _stored(options: Options, store: TaskStore, task_id: str) -> TaskRecord:
    """Read the session to resume. It must be resumed in the workspace it started
    in, unless that no longer exists."""
    if not task_id:
        return TaskRecord()
    record = store.record(task_id)
    opened = record.events[0].fact if record.events else None
    home = opened.workspace if isinstance(opened, TaskOpened) else ""
    if home and home != str(options.workspace) and Path(home).is_dir():
        raise SettingsError(
            f"Session {task_id} belongs to {home}. Continue it there, or with -w {home}."
        )
    return record


def _last_request(stored: EventList) -> RequestStarted | None:
    facts = (event.fact for event in stored.newest(RequestStarted))
    requests = (fact for fact in facts if isinstance(fact, RequestStarted) and not fact.fallback)
    last = next(requests, None)
    return last if last and last.provider else None


def _settings(
    options: Options, places: Places, before: RequestStarted | None, *, trusted: bool
) -> Settings:
    found = _found_settings(options, places, before, trusted=trusted)
    for sentence in found.refused:
        note(sentence)
    settings = found.settings
    if options.driven and ("mistake_limit",) not in found.origins:
        settings = settings.with_mistake_limit(DRIVEN_MISTAKE_LIMIT)
    if options.append_system_prompt:
        settings = settings.with_more_instructions(options.append_system_prompt)
    return _with_usable_shell(settings)


def _found_settings(
    options: Options, places: Places, before: RequestStarted | None, *, trusted: bool
) -> FoundSettings:
    """Read the settings. A resumed session keeps its model unless a flag names another. An
    untrusted folder's settings are not read."""
    provider, model = "", options.model or ""
    if not options.provider:
        provider, model = named_model(model)
    flags: dict[str, str | float | list[str] | None] = {
        "provider": options.provider or provider or None,
        "model": model or None,
        "base_url": options.base_url,
        "fallback": list(options.fallback) or None,
        "folders": [str(path.resolve()) for path in options.add_dir] or None,
        "max_requests": options.max_turns,
        "mode": options.mode,
        "approval": options.level,
        "sandbox.use": options.sandbox,
        "reasoning_effort": options.reasoning_effort,
        "mistake_limit": options.consecutive_mistake_limit,
        "commands.shell": options.terminal_shell or None,
        "followup_seconds": options.followup_timeout,
        "exit_on_error": options.exit_on_error or None,
        "ui.oneshot": options.oneshot or None,
    }
    if before and not (options.provider or provider):
        flags["provider"] = before.provider
        flags["model"] = model or before.model
        flags["base_url"] = options.base_url or before.base_url or None
    project = options.workspace if trusted else None
    try:
        return find_settings(places.settings_file, project, os.environ, flags)
    except SettingsError as error:
        raise SettingsError(_with_flag_name(str(error))) from error


def _with_flag_name(sentence: str) -> str:
    """Replace the name made from the setting, at the start of an error, by the flag's real name."""
    name, space, rest = sentence.partition(" ")
    return f"{_FLAGS_BY_SETTING.get(name, name)}{space}{rest}"


def _with_usable_shell(settings: Settings) -> Settings:
    shell = settings.commands.shell
    if shell is None or (
        os.path.isabs(shell) and os.path.isfile(shell) and os.access(shell, os.X_OK)
    ):
        return settings
    note(f"{shell} is not an absolute path to an executable; using the default shell.")
    return settings.with_usual_shell()


def _require_sandbox(settings: Settings, workspace: Path, places: Places) -> None:
    """Raise `SettingsError` if commands cannot be started without network."""
    from contextlib import closing

    from rookery.app.command_parts import make_sandbox

    with closing(make_sandbox(settings, workspace, places)) as sandbox:
        if not sandbox.can_be_offline:
            raise SettingsError(NO_SANDBOX)


def _kept_level(options: Options, earlier: TaskState) -> Level | None:
    """The level that a flag names or the session had before, if it is continued at a terminal.
    Other levels than those in `KEPT` do not carry over."""
    level = options.level or earlier.level
    return level if options.interactive and level in KEPT else None


def _checked_task(options: Options, store: TaskStore, wanted: OpenTask) -> OpenTask:
    if not wanted.text.strip():
        raise SettingsError("Give a task as an argument or on standard input.")
    task_id = (options.create_with_session_id or str(uuid.uuid4())).lower()
    if store.exists(task_id):
        raise SettingsError(
            f"Session {task_id} already exists. Continue it with --session-id {task_id}."
        )
    return replace(wanted, task_id=task_id, text=as_utf8(wanted.text))
