"""`rookery [PROMPT]`: the options, the table of subcommands, and error reporting."""

import logging
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from rookery import NAME, VERSION
from rookery.app import use_declared_tools
from rookery.cli.command_line import (
    EPILOG,
    GroupedCommand,
    Seconds,
    between_words,
    level_options,
    resolve_folder,
    show_full_help,
)
from rookery.cli.streams import READER_GONE, output_error, prepare_streams
from rookery.core.text.terminal_text import harmless
from rookery.errors import RookeryError

FORMATS = ("text", "json", "stream-json")
WRONG_USAGE = 2
NOT_WRITTEN = 9
HUNG_UP = 129
INTERRUPTED = 130
SHORTEST_COMMAND = 3
PICK_SESSION = "?"
"""The value of `--resume` without an id."""

_PR_SET_DUMPABLE = 4


def run(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code. Errors are printed as one sentence."""
    prepare_streams()
    disable_core_dumps_and_ptrace()
    use_declared_tools()
    # without this, log records would go to stderr
    logging.getLogger(NAME).addHandler(logging.NullHandler())
    arguments = _expand(arguments)
    name = arguments[0] if arguments else ""
    command, rest = (subcommand(name), arguments[1:]) if name in _SUBCOMMANDS else (task, arguments)
    try:
        with command.make_context(
            f"{NAME} {name}" if command is not task else NAME,
            list(rest),
            help_option_names=["-h", "--help"],
        ) as ctx:
            is_prompt = command is task and "--" not in arguments
            if is_prompt and (instead := _command_instead(ctx.params)):
                return run(instead)
            code = command.invoke(ctx)
        sys.stdout.flush()
        return int(code or 0)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return WRONG_USAGE
    except click.ClickException as error:
        code = _report_error(failure := _usage_message(error, command, name), WRONG_USAGE)
    except RookeryError as error:
        from rookery.cli.reports import exit_code_of

        code = _report_error(failure := str(error), exit_code_of(error))
    except (KeyboardInterrupt, EOFError):
        code, failure = INTERRUPTED, "Interrupted before the run started."
    except OSError as error:
        return _report_lost_output(error)
    except Exception as error:
        code = _report_crash(error)
        failure = f"{NAME} failed ({type(error).__name__}: {error})."
    if command is task and (form := _output_format(arguments)) != "text":
        from rookery.cli.reports import print_failure

        print_failure(failure, code, stream=form == "stream-json")
    return code


def _output_format(arguments: Sequence[str]) -> str:
    """The requested output format, as far as the arguments are valid."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    for option, value in pairwise(["", *options, ""]):
        name, _, given = option.partition("=")
        if name == "--output-format" and (given or value) in FORMATS:
            return given or value
    return "text"


def disable_core_dumps_and_ptrace() -> None:
    """Hide the memory and environment of this process from core dumps and other processes."""
    if sys.platform == "linux":
        import _ctypes  # `ctypes` itself is slow to import

        libc = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
        _ctypes.call_function(_ctypes.dlsym(libc, "prctl"), (_PR_SET_DUMPABLE, 0, 0, 0, 0))


def _usage_message(error: click.ClickException, command: click.Command, name: str) -> str:
    from rookery.cli.foreign_words import foreign_flag

    if answer := foreign_flag(error):
        return answer
    text = error.format_message()
    ended = text if text.endswith((".", "?", "!", "?)")) else f"{text}."
    where = NAME if command is task else f"{NAME} {name}"
    if isinstance(error, click.UsageError) and error.ctx and command is not task:
        where = error.ctx.command_path
    return f"{ended} See {where} --help."


def _report_lost_output(error: OSError) -> int:
    """Return the exit code for lost output. A closed pipe is not an error; a closed terminal is."""
    from rookery.compat.structured_output.writer import ReaderLeft

    lost = error if isinstance(error, ReaderLeft) else output_error(error)
    match lost:
        case None:
            return _report_crash(error)
        case BrokenPipeError():
            return 0
        case OSError(errno=number) if number in READER_GONE:
            return HUNG_UP
        case _:
            return _report_error(
                f"Cannot write the output ({lost.strerror}). The session is kept: {NAME} list",
                NOT_WRITTEN,
            )


def _report_error(sentence: str, code: int = 1) -> int:
    print(between_words(f"Error: {harmless(sentence)}", sys.stderr), file=sys.stderr)
    return code


def _report_crash(error: Exception) -> int:
    """Report a bug: one line for the user, and a crash report in a file."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix=f"{NAME}-crash-", suffix=".txt", delete=False
    ) as report:
        report.write("".join(traceback.format_exception(error)))
    return _report_error(
        f"{NAME} failed ({type(error).__name__}: {error}). Your sessions are kept. "
        f"Details: {report.name}"
    )


def _expand(arguments: Sequence[str]) -> Sequence[str]:
    """Turn `help` and `help list` into `--help`, and commands of other agents into ours; `help me
    with this` stays a prompt."""
    match arguments:
        case ["help"]:
            return ["--help"]
        case ["help", name] if name in _SUBCOMMANDS:
            return [name, "--help"]
        case ["run", *rest] if "--fleet" in rest:
            return ["fleet", "run", *(each for each in rest if each != "--fleet")]
        case [name, *_] if name.isalpha() and name not in _SUBCOMMANDS:
            from rookery.cli.foreign_words import translated

            return translated(arguments, task)
        case _:
            return arguments


def _command_instead(given: Mapping[str, Any]) -> Sequence[str]:
    """The arguments to use instead of a prompt that is a single word and looks like a command."""
    resumes = given["resume_last"] or given["session_id"] or given["resume"]
    if len(given["words"]) != 1 or given["prompt_file"] or resumes:
        return ()
    (word,) = given["words"]
    too_short = len(word) < SHORTEST_COMMAND and word not in _SUBCOMMANDS
    if too_short or word.startswith("/"):
        return ()
    from rookery.cli.foreign_words import command_instead

    asks = not given["once"] and sys.stdin.isatty() and sys.stdout.isatty()
    return command_instead(word, [*_SUBCOMMANDS, "help"], asks=asks)


def subcommand(name: str) -> click.Command:
    from importlib import import_module

    module, _, attribute = _SUBCOMMANDS[name].partition(":")
    command = getattr(import_module(module), attribute or "command")
    assert isinstance(command, click.Command)
    return command


_SUBCOMMANDS = {
    "list": "rookery.storage.cli.list",
    "show": "rookery.storage.cli.session_commands:show_command",
    "search": "rookery.storage.cli.list:search_command",
    "fork": "rookery.storage.cli.session_commands:fork_command",
    "rewind": "rookery.checkpoints.cli",
    "export": "rookery.storage.cli.export:export_command",
    "delete": "rookery.storage.cli.delete",
    "import": "rookery.compat.cli",
    "ps": "rookery.storage.cli.session_commands:ps_command",
    "serve": "rookery.cli.serve",
    "attach": "rookery.cli.attach",
    "acp": "rookery.cli.acp",
    "manager": "rookery.manager.cli.manager_command",
    "sessions": "rookery.manager.cli.sessions_command",
    "worker": "rookery.fleet.cli:worker",
    "fleet": "rookery.fleet.cli:fleet",
    "mcp": "rookery.cli.mcp_serve",
    "intents": "rookery.governance.cli.intents",
    "trace": "rookery.governance.cli.trace",
    "hooks": "rookery.governance.cli.hooks_command",
    "review": "rookery.diffs.cli.review",
    "commit": "rookery.diffs.cli.commit",
    "demo": "rookery.cli.demo",
    "trust": "rookery.permissions.cli",
    "doctor": "rookery.cli.doctor",
    "context": "rookery.cli.context",
    "models": "rookery.providers.cli.models_command",
    "modes": "rookery.prompting.cli",
    "config": "rookery.storage.cli.config_command",
    "settings": "rookery.storage.cli.config_command:list_command",
    "auth": "rookery.providers.cli.auth_command:auth",
    "completion": "rookery.cli.completion",
    "upgrade": "rookery.cli.doctor:upgrade",
}


def _resolve_if_exists(ctx: click.Context, option: click.Parameter, value: Path) -> Path:
    """Resolve the folder if it exists; `Options.check` reports a missing one in its order."""
    return resolve_folder(ctx, option, value) if value.is_dir() else value


def hide_key(ctx: click.Context, option: click.Parameter, value: str | None) -> str | None:
    if value:
        from rookery.cli.command_line import hide_argument

        hide_argument(value)
    return value


@click.command(cls=GroupedCommand, epilog=EPILOG)
@click.argument("words", nargs=-1, metavar="[PROMPT]")
@click.option("-P", "--prompt", "prompt_text", help="The prompt, as an option.")
@click.option(
    "--image",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Add an image to the prompt; can be repeated.",
)
@click.option("--append-system-prompt", help="Add this text to the model's instructions.")
@click.option("--prompt-file", type=click.Path(path_type=Path), help="Read the prompt from a file.")
@click.option(
    "-w",
    "--workspace",
    type=click.Path(path_type=Path),
    default=".",
    callback=_resolve_if_exists,
    help="The folder to work in.",
)
@click.option(
    "--add-dir",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Another folder that the agent may read and write; can be repeated.",
)
@click.option("-M", "--mode", help="The mode to start in.")
@click.option("--intent", help="The intent to work for, such as INT-001.")
@click.option(
    "-p", "--print", "once", is_flag=True, help="Run once without asking questions, then exit."
)
@click.option(
    "--timeout",
    type=Seconds(min=0, min_open=True),
    help="End the run after this many seconds; the session is kept.",
)
@click.option(
    "--max-turns",
    type=click.IntRange(min=1),
    help="After this many requests to the model, ask you, or end the run with -p.",
)
@click.option("--provider", help="The model's provider.")
@click.option("-m", "--model", help="The model to call; a script file for --provider scripted.")
@click.option(
    "--base-url", help="The address of the provider's API, such as http://localhost:8000/v1."
)
@click.option(
    "--fallback",
    multiple=True,
    help="Model to use when the first one fails: MODEL or PROVIDER:MODEL. Can be repeated.",
)
@click.option(
    "-k",
    "--api-key",
    callback=hide_key,
    help="The API key to use, instead of the one in the environment.",
)
@click.option("-r", "--reasoning-effort", help="Reasoning effort: low, medium, high, ...")
@click.option("-y", "--yes", is_flag=True, help="Approve everything except dangerous actions.")
@click.option("-a", "--require-approval", is_flag=True, help="Ask before every change.")
@level_options
@click.option("--trust", is_flag=True, help="Trust the folder for this run.")
@click.option(
    "--sandbox", type=click.Choice(["on", "required", "off"]), help="How commands are confined."
)
@click.option("--allow-outside", is_flag=True, help="Do not ask about files outside the folder.")
@click.option("--allow-protected", is_flag=True, help="Do not ask about protected files.")
@click.option(
    "--governance-allow",
    multiple=True,
    type=click.Choice(["scope", "unknown", "delete"]),
    help="Approve these questions about the intent in this run; can be repeated.",
)
@click.option("--terminal-shell", help="The shell that commands run in.")
@click.option("-c", "--continue", "resume_last", is_flag=True, help="Continue the last session.")
@click.option("--session-id", help="Continue this session; give the beginning of its id.")
@click.option(
    "--resume",
    is_flag=False,
    flag_value=PICK_SESSION,
    metavar="[ID]",
    help="Continue this session; without an id, choose one from a list.",
)
@click.option("--create-with-session-id", help="Start a session with this id.")
@click.option("--ephemeral", is_flag=True, help="Delete the session after the run.")
@click.option(
    "--consecutive-mistake-limit",
    type=int,
    help="Ask you after this many mistakes in a row; 0 means never.",
)
@click.option("--exit-on-error", is_flag=True, help="Exit at the first failed request.")
@click.option(
    "--followup-timeout",
    type=Seconds(min=0),
    help="With -y: answer the model's questions automatically after this many seconds.",
)
@click.option(
    "--output-format", default="text", metavar="|".join(FORMATS), help="The output format."
)
@click.option("--no-tui", is_flag=True, help="Print lines instead of opening the full screen.")
@click.option("--oneshot", is_flag=True, help="Close the full screen when the task is done.")
@click.option("--verbose", is_flag=True, help="Show the whole output of every step.")
@click.option("-d", "--debug", is_flag=True, help="Write a debug log.")
@click.option(
    "--stdin-prompt-stream", is_flag=True, help="Read commands as JSON lines from standard input."
)
@click.option(
    "--signal-only-exit",
    is_flag=True,
    help="With --stdin-prompt-stream: wait for a signal after the end of input.",
)
@click.option(
    "-i",
    "--json-io",
    is_flag=True,
    help="Exchange Roo's engine messages on standard input and output.",
)
@click.option("-e", "--extension", hidden=True, help="Accepted for compatibility; has no effect.")
@click.option(
    "--help-all",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=show_full_help,
    help="Show every option, command and exit code, and exit.",
)
@click.version_option(VERSION, "-V", "--version", message=f"{NAME} %(version)s")
def task(**options: Any) -> int:
    """Give the agent a task: fix a bug, add a feature, explain some code."""
    from rookery.cli.options import Options
    from rookery.cli.run import run_session

    return run_session(Options(**options))


_OF_SESSIONS = {
    *("yes", "require_approval", "permission_mode", "trust", "sandbox", "provider", "model"),
    *("base_url", "fallback", "api_key", "mode"),
}


def session_flags(*more: str) -> list[click.Parameter]:
    """The flags of a task that a command with many sessions takes, too, for all of them."""
    return [param for param in task.params if param.name in {*_OF_SESSIONS, *more}]
