"""`rookery [PROMPT]`: options, their validation in order, and the choice of client."""

import codecs
import gc
import io
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from rookery import NAME, VERSION
from rookery.clients.terminal_text import harmless, spell_plainly
from rookery.errors import RookeryError, SettingsError
from rookery.storage.private_memory import let_nobody_look_in

FORMATS = ("text", "json", "stream-json")
WRONG_USAGE = 2
HUNG_UP = 129
NEAR_MISS = 0.75
OBJECTS_UNTIL_GARBAGE_IS_SOUGHT = 50_000


def run(arguments: Sequence[str]) -> int:
    """Run the command and give its exit code. Whatever is wrong is said in one sentence."""
    _ready_streams()
    let_nobody_look_in()
    # without a debug log, what the product notes for its makers goes nowhere
    logging.getLogger(NAME).addHandler(logging.NullHandler())
    arguments = _asking_for_help(arguments)
    name = arguments[0] if arguments else ""
    command, rest = (
        (_subcommand(name), arguments[1:]) if name in _SUBCOMMANDS else (task, arguments)
    )
    try:
        with command.make_context(
            f"{NAME} {name}" if command is not task else NAME,
            list(rest),
            help_option_names=["-h", "--help"],
        ) as ctx:
            if command is task and "--" not in arguments:
                _insist_on_a_task(ctx.params)
            code = command.invoke(ctx)
        sys.stdout.flush()
        return int(code or 0)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        return _failed(f"{error.format_message()} See {NAME} --help.", WRONG_USAGE)
    except RookeryError as error:
        from rookery.cli.exit_codes import exit_code_of

        return _failed(str(error), exit_code_of(error))
    except (KeyboardInterrupt, EOFError):
        return 130
    except BrokenPipeError:
        _readers_left()
        return 0
    except OSError as error:
        return HUNG_UP if _readers_left() else _broke_down(error)
    except Exception as error:
        return _broke_down(error)


def _ready_streams() -> None:
    """Whatever is printed later can be printed, in any encoding and with any stream closed."""
    codecs.register_error("plainly", spell_plainly)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="plainly")


def _readers_left() -> bool:
    """Whether a pipe was closed or a terminal hung up. What is still to be written then goes
    nowhere, or Python complains once more when it exits.
    """
    left = False
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            left = True
    return left


def _failed(sentence: str, code: int = 1) -> int:
    print(f"Error: {harmless(sentence)}", file=sys.stderr)
    return code


def _broke_down(error: Exception) -> int:
    """A bug: one line for the user, the rest in a file that can be attached to a report."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix=f"{NAME}-crash-", suffix=".txt", delete=False
    ) as report:
        report.write("".join(traceback.format_exception(error)))
    return _failed(
        f"{NAME} broke down ({type(error).__name__}: {error}). Your sessions are kept; "
        f"the details are in {report.name}."
    )


def _asking_for_help(arguments: Sequence[str]) -> Sequence[str]:
    """`help` and `help list` as the flag says them; `help me with this` is a task."""
    match arguments:
        case ["help"]:
            return ["--help"]
        case ["help", name] if name in _SUBCOMMANDS:
            return [name, "--help"]
        case _:
            return arguments


def _insist_on_a_task(given: Mapping[str, Any]) -> None:
    """A single word that is nearly a command was hardly meant for a model."""
    resumes = given["resume_last"] or given["session_id"]
    if len(given["words"]) != 1 or given["prompt_file"] or resumes:
        return
    from difflib import get_close_matches

    (word,) = given["words"]
    commands = [*_SUBCOMMANDS, "help"]
    near = get_close_matches(word.lower(), commands, n=1, cutoff=NEAR_MISS)
    if near and word not in commands:
        raise SettingsError(
            f"There is no command {word}; did you mean {near[0]}? "
            f"To give it as a task: {NAME} -- {word}"
        )


def _subcommand(name: str) -> click.Command:
    from importlib import import_module

    command = import_module(f"rookery.cli.{_SUBCOMMANDS[name]}").command
    assert isinstance(command, click.Command)
    return command


_SUBCOMMANDS = {
    "list": "list",
    "show": "show",
    "search": "search",
    "fork": "fork",
    "rewind": "rewind",
    "export": "export",
    "delete": "delete",
    "ps": "ps",
    "serve": "serve",
    "attach": "attach",
    "mcp": "mcp",
    "demo": "demo",
    "trust": "trust",
    "doctor": "doctor",
    "models": "models",
    "config": "config",
    "settings": "settings",
    "auth": "auth",
    "completion": "completion",
    "upgrade": "upgrade",
}

_EPILOG = """\b
Sessions:
  rookery list       the sessions of this workspace
  rookery search     in which session words were said
  rookery show       what was said and done in a session; --tree shows its sub-tasks
  rookery fork       go on with a session in two ways
  rookery rewind     go back to an earlier point: files, conversation, or both
  rookery export     a session as Markdown or JSON
  rookery delete     remove sessions for good

\b
Other commands:
  rookery demo       watch a scripted model fix a small repository
  rookery ps         the commands that are running; --stop ends one
  rookery serve      run tasks for clients that come and go
  rookery attach     look on at a task of a server, and answer it
  rookery mcp        your MCP servers: list, test, add, remove
  rookery trust      trust this folder, or no longer; --list shows what you allowed
  rookery doctor     whether everything is in place, and which protection holds here
  rookery models     the models known for your keys, and those of servers on this machine
  rookery config     settings: get, set, edit, explain where a value comes from
  rookery auth       keep an API key, say which there are, remove one
  rookery completion completion of commands for your shell
  rookery upgrade    how to get a newer version

\b
Exit codes: 0 completed, 1 not completed, 2 wrong usage, 3 no key, 4 limit reached,
5 forbidden, 6 needs a person, 7 stalled, 8 rate limited, 9 storage, 124 --timeout reached,
129 hung up, 130 interrupted, 143 terminated. A task that did not complete is kept: go on
with -c.
"""


def resolve_folder(ctx: click.Context, option: click.Parameter, value: Path) -> Path:
    if not value.is_dir():
        raise SettingsError(f"There is no folder {value}. Name one with -w.")
    try:
        return value.resolve()
    except FileNotFoundError as error:
        raise SettingsError("The current folder was removed. Name one with -w.") from error


def _folder_if_there(ctx: click.Context, option: click.Parameter, value: Path) -> Path:
    """The same, but that there is none is said in its turn, with what else may be wrong."""
    return resolve_folder(ctx, option, value) if value.is_dir() else value


def _hidden(ctx: click.Context, option: click.Parameter, value: str | None) -> str | None:
    if value:
        from rookery.cli.hidden_arguments import hide_argument

        hide_argument(value)
    return value


@click.command(epilog=_EPILOG)
@click.argument("words", nargs=-1, metavar="[PROMPT]")
@click.option("-P", "--prompt", "said", help="The prompt, as an option.")
@click.option("--prompt-file", type=click.Path(path_type=Path), help="Read the prompt from a file.")
@click.option(
    "-w",
    "--workspace",
    type=click.Path(path_type=Path),
    default=".",
    callback=_folder_if_there,
    help="The folder to work in.",
)
@click.option("-p", "--print", "once", is_flag=True, help="Run once without questions, then exit.")
@click.option("-y", "--yes", is_flag=True, help="Ask only about what is grave.")
@click.option("-a", "--require-approval", is_flag=True, help="Ask before every change.")
@click.option("--trust", is_flag=True, help="Trust the folder, for this run.")
@click.option(
    "--sandbox", type=click.Choice(["on", "required", "off"]), help="How commands are confined."
)
@click.option("--allow-outside", is_flag=True, help="Do not ask about files outside the folder.")
@click.option("--allow-protected", is_flag=True, help="Do not ask about protected files.")
@click.option("--provider", help="Who serves the model.")
@click.option("-m", "--model", help="The model to call; a script file for --provider scripted.")
@click.option("--base-url", help="Where the provider's API is, as the vendor's own kit takes it.")
@click.option(
    "-k", "--api-key", callback=_hidden, help="The key to use instead of the environment's."
)
@click.option("-M", "--mode", help="The mode to start in.")
@click.option("-c", "--continue", "resume_last", is_flag=True, help="Go on with the last session.")
@click.option("--session-id", help="Go on with this session; the beginning of its id will do.")
@click.option("--create-with-session-id", help="Start a session with this id.")
@click.option("--ephemeral", is_flag=True, help="Keep nothing on disk after the run.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="End after seconds.")
@click.option("--output-format", default="text", metavar="|".join(FORMATS), help="How to print.")
@click.option("--no-tui", is_flag=True, help="Plain lines instead of the full screen.")
@click.option("--stdin-prompt-stream", is_flag=True, help="Be driven by commands on input.")
@click.option("--signal-only-exit", is_flag=True, help="With the stream: stay until a signal.")
@click.option("-i", "--json-io", is_flag=True, help="Speak the engine's messages on both pipes.")
@click.option("-r", "--reasoning-effort", help="How hard the model thinks.")
@click.option("--consecutive-mistake-limit", type=int, help="Mistakes in a row until it asks.")
@click.option("--terminal-shell", help="The shell that commands run in.")
@click.option("--exit-on-error", is_flag=True, help="End with the first failed request.")
@click.option("--oneshot", is_flag=True, help="Leave the full screen when the task is done.")
@click.option(
    "--followup-timeout",
    type=click.FloatRange(min=0),
    help="Seconds until a question is answered by itself in automatic runs.",
)
@click.option("-e", "--extension", hidden=True, help="Accepted for other programs' sake.")
@click.option("-d", "--debug", is_flag=True, help="Write a debug log.")
@click.version_option(VERSION, "-V", "--version", message=f"{NAME} %(version)s")
def task(**wishes: Any) -> int:
    """Give the agent a task: fix a bug, add a feature, explain some code."""
    with _garbage_sought_seldom():
        from rookery.cli.session import run_session
        from rookery.cli.wishes import Wishes

        return run_session(Wishes(**wishes))


@contextmanager
def _garbage_sought_seldom() -> Iterator[None]:
    """What is made at the start stays to the end. To look through all of it for garbage, again
    and again while it grows and once more at the exit, would take a fifth of a short run."""
    usual = gc.get_threshold()
    gc.set_threshold(OBJECTS_UNTIL_GARBAGE_IS_SOUGHT)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.freeze()
