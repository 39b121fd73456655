"""How a command line that needs no shell is run: the words for `plain_runner`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from rookery.core.command_lines import Plain, PlainCommand
from rookery.platform.git.git_hardening import git_hardening, hardened, is_git, sub_command
from rookery.sandbox.layers import INTERPRETER

RUNNER = Path(__file__).parents[1] / "platform" / "processes" / "plain_runner.py"


def plain_argv(plain: Plain, *, root: str = "") -> list[str]:
    """The argv that runs it. Every command must begin with the absolute path of its program.

    Git among them is run with `git_hardening` for the workspace `root`.
    """
    variables, options = git_hardening(root)
    words = [*_counted([f"{name}={text}" for name, text in variables.items()])]
    for pipeline in plain:
        words += [pipeline.when, str(len(pipeline.commands))]
        for command in pipeline.commands:
            words += [command.errors, command.output, command.folder, command.source]
            words += _words(command, options)
    return [INTERPRETER, "-I", "-S", str(RUNNER), *words]


def _words(command: PlainCommand, options: Sequence[str]) -> list[str]:
    """How many words stand before git's sub-command (none for other programs), and all."""
    program = command.words[0]
    if not program.startswith("/"):
        raise ValueError(f"{program!r} is not the path of a program.")
    if not is_git(program):
        return ["0", *_counted(command.words)]
    words = hardened(command.words, options)
    return [str(sub_command(words)), *_counted(words)]


def _counted(words: Sequence[str]) -> Iterator[str]:
    yield str(len(words))
    yield from words
