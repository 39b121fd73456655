"""Additions to click: options of several commands, grouped help, a type for seconds, and hiding a
key from `ps`.

Other users can read the arguments of a process. On Linux they are read from the memory of the
process, so `hide_argument` overwrites the key there.
"""

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO, TypeAlias

import click

from rookery.errors import SettingsError

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


def resolve_folder(ctx: click.Context, option: click.Parameter, value: Path) -> Path:
    if not value.is_dir():
        raise SettingsError(f"No such folder: {value}. Give one with -w.")
    try:
        return value.resolve()
    except FileNotFoundError as error:
        raise SettingsError("The current folder was removed. Give one with -w.") from error


def folder_option(help: str, *names: str) -> Decorator:
    return click.option(
        *(names or ("-w", "--workspace")),
        type=click.Path(path_type=Path),
        default=".",
        callback=resolve_folder,
        help=help,
    )


json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
format_option: Decorator = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"], case_sensitive=False),
    default="text",
    help="The output format.",
)


def between_words(text: str, stream: TextIO, margin: str = "") -> str:
    """Wrap the text between words if the stream is a terminal, with a margin for all lines but
    the first."""
    if not stream.isatty():
        return text
    from shutil import get_terminal_size
    from textwrap import fill

    width = max(40, get_terminal_size().columns)
    lines = text.split("\n")
    filled = [
        fill(line, width, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False)
        for line in lines
    ]
    return "\n".join(filled)


class Seconds(click.FloatRange):
    """A number of seconds. NaN is rejected, because it passes every range check."""

    name = "seconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if math.isnan(seconds):
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return float(super().convert(seconds, param, ctx))

    def _describe_range(self) -> str:
        return ""


GROUPS = {
    "What to do": (
        "prompt_text",
        "prompt_file",
        "image",
        "append_system_prompt",
        "workspace",
        "add_dir",
        "mode",
        "intent",
        "once",
        "timeout",
        "max_turns",
    ),
    "Model": ("provider", "model", "base_url", "fallback", "api_key", "reasoning_effort"),
    "Permissions": (
        "yes",
        "require_approval",
        "permission_mode",
        "allowed_tools",
        "disallowed_tools",
        "trust",
        "sandbox",
        "allow_outside",
        "allow_protected",
        "governance_allow",
        "terminal_shell",
    ),
    "Sessions": ("resume_last", "session_id", "resume", "create_with_session_id", "ephemeral"),
    "Errors and unanswered questions": (
        "consecutive_mistake_limit",
        "exit_on_error",
        "followup_timeout",
    ),
    "Output": ("output_format", "no_tui", "oneshot", "verbose", "debug"),
    "For programs": ("stdin_prompt_stream", "signal_only_exit", "json_io"),
}
"""The parameter names under each heading."""
OTHERS = "Other options"


MOST_USED = (
    *("once", "resume_last", "resume", "permission_mode", "mode", "provider", "model"),
    *("workspace", "add_dir", "image", "output_format"),
)
"""The options on the short page of the help."""


class GroupedCommand(click.Command):
    """A command with two pages of help: `--help` has the options in `MOST_USED`, `--help-all` has
    all of them under the headings in `GROUPS`."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        by_name = {each.name: each for each in self.get_params(ctx)}
        with formatter.section("Most used options"):
            formatter.write_dl([_brief_row(by_name[name], ctx) for name in MOST_USED])
        formatter.write(SHORT_EPILOG)

    def full_help(self, ctx: click.Context) -> str:
        formatter = ctx.make_formatter()
        click.Command.format_help(self, ctx, formatter)
        return formatter.getvalue().rstrip("\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, list[tuple[str, str]]] = {heading: [] for heading in (*GROUPS, OTHERS)}
        headings = {name: heading for heading, names in GROUPS.items() for name in names}
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if row:
                rows[headings.get(parameter.name or "", OTHERS)].append(row)
        for heading, lines in rows.items():
            if lines:
                with formatter.section(heading):
                    formatter.write_dl(lines)


_LEVEL_OPTIONS = (
    click.option(
        "--permission-mode",
        "--approval-mode",
        "--ask-for-approval",
        "permission_mode",
        metavar="ask|edits|plan|sandboxed|auto",
        help="What runs without asking. Dangerous actions always ask.",
    ),
    click.option(
        "--allowed-tools",
        "--allowedTools",
        "allowed_tools",
        multiple=True,
        metavar="RULES",
        help='Do not ask about these in this run: "Bash(pytest:*) Edit".',
    ),
    click.option(
        "--disallowed-tools",
        "--disallowedTools",
        "disallowed_tools",
        multiple=True,
        metavar="RULES",
        help='Refuse these in this run: "Bash(git push:*) Write".',
    ),
    click.option("--full-auto", is_flag=True, hidden=True),
    click.option(
        "--yolo",
        "--dangerously-skip-permissions",
        "--dangerously-bypass-approvals-and-sandbox",
        "skip_permissions",
        is_flag=True,
        hidden=True,
    ),
)
"""The level of a run, in the words of several agents."""


def level_options(command: Any) -> Any:
    for option in reversed(_LEVEL_OPTIONS):
        command = option(command)
    return command


def _brief_row(option: click.Parameter, ctx: click.Context) -> tuple[str, str]:
    """An option's row in the help, without words of other agents for it."""
    assert isinstance(option, click.Option)
    longest = next(name for name in option.opts if name.startswith("--"))
    short = [name for name in option.opts if not name.startswith("--")]
    value = [] if option.is_flag else [option.make_metavar(ctx)]
    return " ".join([", ".join([*short, longest]), *value]), option.help or ""


def show_full_help(ctx: click.Context, option: click.Parameter, value: bool) -> None:
    if value and isinstance(ctx.command, GroupedCommand):
        click.echo(ctx.command.full_help(ctx))
        ctx.exit()


SHORT_EPILOG = """
Most used commands:
  rookery auth       store a key, or sign in
  rookery models     list the models you can use, with window and price
  rookery list       list the sessions of this workspace
  rookery rewind     undo: files, conversation, or both
  rookery review     review uncommitted changes, a branch, a commit or a patch
  rookery commit     write a commit message and commit staged changes
  rookery manager    open all sessions on one page in your browser
  rookery mcp        add MCP servers
  rookery config     read and change settings
  rookery doctor     check the installation and its protection
  rookery demo       watch a scripted model fix a small repository; needs no key

More commands:
  search, show, fork, export, delete, import, ps, sessions, worker, fleet,
  serve, attach, acp, intents, trace, hooks, trust, context, modes, settings,
  completion, upgrade

rookery COMMAND --help explains a command.
rookery --help-all lists every option and exit code.
"""

EPILOG = """\b
Commands about sessions:
  rookery list       list the sessions of this workspace
  rookery search     full-text search across sessions
  rookery show       print a session; --tree shows its sub-tasks
  rookery fork       copy a session into a new one
  rookery rewind     undo: files, conversation, or both
  rookery export     write a session as a document, or a bundle to share
  rookery delete     delete sessions
  rookery import     import sessions of other agents

\b
Git:
  rookery review     review uncommitted changes, a branch, a commit or a patch
  rookery commit     write a commit message and commit staged changes

\b
Many sessions at once:
  rookery manager    open the Agent Manager in your browser: all sessions on one page
  rookery sessions   the same for scripts: start, follow, answer, review, apply
  rookery worker     run sessions of a fleet on this machine
  rookery fleet      sessions on many machines: run, list, answer, cancel

\b
Other commands:
  rookery demo       watch a scripted model fix a small repository
  rookery ps         list running commands; --stop ends one
  rookery serve      run sessions for clients that attach and detach
  rookery attach     follow and answer a session of a server
  rookery acp        work in an editor: Zed, JetBrains, Neovim
  rookery mcp        MCP servers: list, add, import, test, remove
  rookery intents    say why and where code may change: init, new, start, check, close
  rookery trace      the ledger of changes: log, blame, verify, export
  rookery hooks      run your own programs before and after tool calls
  rookery trust      trust this folder; --forget, --list
  rookery doctor     check the installation and its protection
  rookery context    list what the model gets in this folder, with sizes
  rookery models     list the models of your keys and of local servers
  rookery modes      modes: list, export to a file, import from one
  rookery config     settings: get, set, edit, explain where a value comes from
  rookery auth       store, list or remove API keys
  rookery completion print the completion script for your shell
  rookery upgrade    show how to get a newer version

\b
Exit codes: 0 completed, 1 not completed, 2 wrong usage, 3 no key, 4 limit reached,
5 refused, 6 needs a person, 7 stalled, 8 rate limited, 9 storage, 10 review with findings,
20 outside its intent, 21 not recorded, 22 no such intent, 124 --timeout reached,
129 hung up, 130 interrupted, 143 terminated.
A session that did not complete is kept: continue with -c.
"""


PROC_STAT = "/proc/self/stat"
_ARG_START, _ARG_END = 47, 48
"""Indices of arg_start and arg_end among the fields of /proc/PID/stat."""


def hide_argument(secret: str) -> None:
    """Overwrite the argument in the process's memory, or warn if that is not possible."""
    if not _overwrite(os.fsencode(secret)):
        print(
            (
                "note: Other users of this machine can see a key given with -k. Use the "
                "environment variable instead."
            ),
            file=sys.stderr,
        )


def _overwrite(secret: bytes) -> bool:
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        with open(PROC_STAT, encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        # cut after the second field, the program's name, which may contain anything
        start, end = int(fields[_ARG_START - 2]), int(fields[_ARG_END - 2])
    except (OSError, ValueError, IndexError):
        return False
    if not 0 < start < end:
        return False
    hidden = ctypes.string_at(start, end - start).replace(secret, b"*" * len(secret))
    ctypes.memmove(start, hidden, len(hidden))
    return True
