"""What the command line needs beside click: grouped help, seconds, and hiding of a key.

Everybody who can list processes can read their arguments. On Linux the list is read from the
memory of the process, so `hide_argument` overwrites the key there.
"""

import math
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click


class Seconds(click.FloatRange):
    """What is not a number passes every comparison with one, so it has to be looked for."""

    name = "seconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail(f"{value} is no number of seconds.", param, ctx)
        return seconds

    def _describe_range(self) -> str:
        return ""


OTHERS = "Other options"


class GroupedCommand(click.Command):
    """A command whose options are shown under the headings that `groups` has for their names."""

    groups: Mapping[str, Sequence[str]] = {}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, list[tuple[str, str]]] = {heading: [] for heading in (*self.groups, OTHERS)}
        headings = {name: heading for heading, names in self.groups.items() for name in names}
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if row:
                rows[headings.get(parameter.name or "", OTHERS)].append(row)
        for heading, lines in rows.items():
            if lines:
                with formatter.section(heading):
                    formatter.write_dl(lines)


GROUPS = {
    "What to do": ("said", "prompt_file", "workspace", "mode", "intent", "once", "timeout"),
    "Model": ("provider", "model", "base_url", "api_key", "reasoning_effort"),
    "Permissions": (
        "yes",
        "require_approval",
        "trust",
        "sandbox",
        "allow_outside",
        "allow_protected",
        "governance_allow",
        "terminal_shell",
    ),
    "Sessions": ("resume_last", "session_id", "create_with_session_id", "ephemeral"),
    "When something goes wrong, or nobody answers": (
        "consecutive_mistake_limit",
        "exit_on_error",
        "followup_timeout",
    ),
    "Output": ("output_format", "no_tui", "oneshot", "debug"),
    "For programs that drive it": ("stdin_prompt_stream", "signal_only_exit", "json_io"),
}
"""The options under each heading, by the names of their values."""

EPILOG = """\b
Commands about sessions:
  rookery list       the sessions of this workspace
  rookery search     in which session words were said
  rookery show       what was said and done in a session; --tree shows its sub-tasks
  rookery fork       go on with a session in two ways
  rookery rewind     go back to an earlier point: files, conversation, or both
  rookery export     a session as Markdown, JSON or HTML
  rookery delete     remove sessions for good

\b
Many sessions at once:
  rookery manager    the Agent Manager: all sessions of a project on one page in the browser
  rookery sessions   the same for scripts: start, follow, answer, review, apply

\b
Other commands:
  rookery demo       watch a scripted model fix a small repository
  rookery ps         the commands that are running; --stop ends one
  rookery serve      run tasks for clients that come and go
  rookery attach     look on at a task of a server, and answer it
  rookery mcp        your MCP servers: list, test, add, remove
  rookery intents    why things may be changed, and where: init, new, start, check, close
  rookery trace      what was done for which intent: log, blame, verify, export
  rookery hooks      programs of yours that have a say in what is done
  rookery trust      trust this folder, or no longer; --list shows what you allowed
  rookery doctor     whether everything is in place, and which protection holds here
  rookery models     the models known for your keys, and those of servers on this machine
  rookery modes      modes: list, export to a file, import from one
  rookery config     settings: get, set, edit, explain where a value comes from
  rookery auth       keep an API key, say which there are, remove one
  rookery completion completion of commands for your shell
  rookery upgrade    how to get a newer version

\b
Exit codes: 0 completed, 1 not completed, 2 wrong usage, 3 no key, 4 limit reached,
5 forbidden, 6 needs a person, 7 stalled, 8 rate limited, 9 storage, 20 outside its intent,
21 not recorded, 22 no such intent, 124 --timeout reached, 129 hung up, 130 interrupted,
143 terminated. A task that did not complete is kept: go on with -c.
"""


SHOWN_BY = "/proc/self/stat"
_ARG_START, _ARG_END = 47, 48
"""Where the kernel tells the ends of the arguments, counted from 0."""


def hide_argument(secret: str) -> None:
    """From now on the argument is not to be seen from outside. Where that cannot be done, it is
    said once."""
    if not _overwritten(os.fsencode(secret)):
        print(
            "note: Other users of this machine can see the key given with -k; the environment "
            "is safer.",
            file=sys.stderr,
        )


def _overwritten(secret: bytes) -> bool:
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        with open(SHOWN_BY, encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        # the first two fields, of which the second may hold anything, are cut off
        start, end = int(fields[_ARG_START - 2]), int(fields[_ARG_END - 2])
    except (OSError, ValueError, IndexError):
        return False
    if not 0 < start < end:
        return False
    hidden = ctypes.string_at(start, end - start).replace(secret, b"*" * len(secret))
    ctypes.memmove(start, hidden, len(hidden))
    return True
