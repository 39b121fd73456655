"""`rookery completion`: completion scripts for shells, and the answers to them.

The script runs this command on every Tab. So it imports nothing slow, does not ask the keyring, and
runs nothing from the folder.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
)

from rookery import NAME
from rookery.cli.main import _SUBCOMMANDS, subcommand, task
from rookery.errors import RookeryError, SettingsError

MOST_SESSIONS = 50

_SHELLS: Mapping[str, type[ShellComplete]] = {
    "bash": BashComplete,
    "zsh": ZshComplete,
    "fish": FishComplete,
}
Values: TypeAlias = Callable[[], Iterator[tuple[str, str]]]
"""Values of a parameter, each with a description."""


@click.command()
@click.argument("shell", required=False, metavar="bash|zsh|fish")
@click.option("--answer", is_flag=True, hidden=True, help="Print completions; used by the script.")
def command(shell: str | None, answer: bool) -> int:
    """Print a script that completes commands, options, sessions, modes, models and settings.

    \b
    bash:  rookery completion bash > ~/.local/share/bash-completion/completions/rookery
    zsh:   rookery completion zsh > ~/.zfunc/_rookery   (with ~/.zfunc in fpath)
    fish:  rookery completion fish > ~/.config/fish/completions/rookery.fish
    """
    if shell is None or shell not in _SHELLS:
        raise SettingsError(f"Give a shell: {', '.join(_SHELLS)}.")
    if answer:
        settings = {"help_option_names": ["-h", "--help"]}
        answers = _SHELLS[shell](_AllCommands(), settings, NAME, "").complete()
        print(answers, end="\n" if answers else "")
    else:
        print(_SCRIPTS[shell], end="")
    return 0


class _AllCommands(click.Group):
    """A group of all commands, with the options of a task. Commands are imported on demand."""

    def __init__(self) -> None:
        options = [each for each in task.params if isinstance(each, click.Option)]
        super().__init__(NAME, params=list(_with_values(options, _VALUES[""])))
        self._is_task = False
        """The words are a prompt, not a command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _SUBCOMMANDS:
            return None
        found = subcommand(cmd_name)
        inner = found.commands.values() if isinstance(found, click.Group) else [found]
        for each in inner:
            each.params = list(_with_values(each.params, _VALUES.get(cmd_name, {})))
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, found, rest = super().resolve_command(ctx, args)
        self._is_task = found is None
        return name, found, rest

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        names = [] if self._is_task else self.list_commands(ctx)
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _with_values(
    params: "list[click.Option] | list[click.Parameter]", known: Mapping[str, Values]
) -> Iterator[click.Parameter]:
    for param in params:
        if values := known.get(param.name or ""):
            setattr(param, "shell_complete", _completer(values))  # noqa: B010
        yield param


def _completer(values: Values) -> Callable[[click.Context, str], list[CompletionItem]]:
    def complete(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        try:
            return [
                CompletionItem(text, help=about or None)
                for text, about in values()
                if text.startswith(incomplete)
            ]
        except RookeryError:  # there is no place to show an error
            return []

    return complete


def _sessions() -> Iterator[tuple[str, str]]:
    from rookery.platform.user_folders import find_places
    from rookery.storage.cli.session_listing import cut, one_line, short_ids
    from rookery.storage.sessions import TaskStore

    stored = TaskStore(find_places(os.environ)).list(hidden=False)
    short = short_ids([each.id for each in stored])
    here = [each for each in stored if each.workspace == str(Path.cwd().resolve())]
    for each in here[:MOST_SESSIONS]:
        yield short[each.id], cut(one_line(each.title), 60)


def _modes() -> Iterator[tuple[str, str]]:
    from rookery.core.modes import BUILT_IN

    yield from ((mode.slug, mode.name) for mode in BUILT_IN)


def _models() -> Iterator[tuple[str, str]]:
    from rookery.platform.user_folders import find_places
    from rookery.providers.cli.models_command import models_by_key

    offers = models_by_key(os.environ, find_places(os.environ).keys_file)
    yield from ((model, provider) for provider, models in offers.items() for model in models)


def _plain(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    return ((name, "") for name in names)


def _providers() -> Iterator[tuple[str, str]]:
    from rookery.app.model_choice import PROVIDERS

    return _plain(PROVIDERS)


def _auth_words() -> Iterator[tuple[str, str]]:
    from rookery.app.model_choice import KEYS_OF_PROVIDERS

    yield "status", "which keys are stored"
    yield "logout", "remove a key"
    yield from KEYS_OF_PROVIDERS.items()


def _models_words() -> Iterator[tuple[str, str]]:
    yield "describe", "store facts about a model"
    yield from _providers()


def _settings() -> Iterator[tuple[str, str]]:
    from rookery.core.settings_reference import ANY, all_settings

    for key, setting in all_settings().items():
        if ANY not in key:
            yield ".".join(key), setting.sentence


_SESSION = {"session": _sessions, "sessions": _sessions}
_MODEL = {"model": _models, "provider": _providers}
_VALUES: Mapping[str, Mapping[str, Values]] = {
    "": {
        "session_id": _sessions,
        "resume": _sessions,
        "mode": _modes,
        **_MODEL,
    },
    "review": _MODEL,
    "commit": {"session": _sessions, **_MODEL},
    **dict.fromkeys(("show", "export", "fork", "rewind", "delete", "attach", "sessions"), _SESSION),
    "list": {"what": partial(_plain, ("sessions", "commands", "modes", "models"))},
    "config": {"name": _settings},
    "auth": {"words": _auth_words},
    "models": {"words": _models_words},
    "completion": {"shell": partial(_plain, _SHELLS)},
}
"""Values that click does not know, by command and parameter."""

_BASH = """\
_rookery_completion() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        case "${line%%,*}" in
            dir) compopt -o dirnames 2> /dev/null ;;
            file) compopt -o default 2> /dev/null ;;
            plain) COMPREPLY+=("${line#*,}") ;;
        esac
    done < <(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD="$COMP_CWORD" \\
        "$1" completion bash --answer 2> /dev/null)
}
complete -o nosort -F _rookery_completion rookery rook 2> /dev/null ||
    complete -F _rookery_completion rookery rook
"""

_ZSH = """\
#compdef rookery rook
_rookery_completion() {
    local -a answer plain described
    local kind value about
    answer=("${(@f)$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT - 1)) \\
        "${words[1]}" completion zsh --answer 2> /dev/null)}")
    for kind value about in "${answer[@]}"; do
        case "$kind" in
            dir) _path_files -/ ;;
            file) _path_files -f ;;
            plain)
                if [[ "$about" == "_" ]]; then
                    plain+=("$value")
                else
                    described+=("$value:$about")
                fi ;;
        esac
    done
    if (( ${#described} )); then _describe -V unsorted described -U; fi
    if (( ${#plain} )); then compadd -U -V unsorted -a plain; fi
}
if [[ "${zsh_eval_context[-1]}" == loadautofunc ]]; then
    _rookery_completion "$@"
else
    compdef _rookery_completion rookery rook
fi
"""

_FISH = """\
function _rookery_completion
    set -l answer (env COMP_WORDS=(commandline -cp) COMP_CWORD=(commandline -t) \\
        rookery completion fish --answer 2> /dev/null)
    for line in $answer
        set -l parts (string split -m 1 "," -- $line)
        switch $parts[1]
            case dir
                __fish_complete_directories $parts[2]
            case file
                __fish_complete_path $parts[2]
            case plain
                echo $parts[2]
        end
    end
end
complete --no-files --command rookery --arguments "(_rookery_completion)"
complete --no-files --command rook --arguments "(_rookery_completion)"
"""

_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
