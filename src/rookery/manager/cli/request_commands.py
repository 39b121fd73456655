"""Commands made from requests: their fields become arguments and options, one request is sent,
its answer is printed.

A field without a default is an argument. One with a default is an option if the table gives it a
help text; without one it cannot be set from the command line.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

import click
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from rookery.cli.exit_codes import Exit
from rookery.core.text.terminal_text import harmless_line
from rookery.errors import SettingsError
from rookery.manager.cli.sessions_common import ManagerClient, short, with_manager, words_of
from rookery.manager.shown_rows import Done

Lines = Callable[[Any, ManagerClient], Iterable[str]]
_NAMES = {"session_id": "session", "worktree_id": "which", "id": "device"}
"""Parameters that are called otherwise than their field."""
_METAVARS = {"session_id": "ID", "worktree_id": "ID|BRANCH", "id": "DEVICE"}


class CommandSpec(Struct, frozen=True):
    name: str
    """After `rookery sessions`; two words for a command of a group."""
    request: type[Any]
    """Its docstring is the help."""
    arguments: tuple[str, ...] = ()
    """Fields with a default that are arguments all the same."""
    options: Mapping[str, str | click.Option] = {}
    """By field: the help, or the whole option."""
    done: str | Callable[[Any], str] = ""
    """What to say of a request that is answered with `Done`; takes the fields, `{id}`, `{branch}`
    and `{path}`."""
    notes_instead: bool = False
    """The notes of the answer replace that sentence."""
    lines: Lines | None = None
    """What to print of any other answer."""
    refuse: Callable[[Any], str] | None = None
    """Why a request makes no sense, or nothing."""


def request_command(spec: CommandSpec) -> click.Command:
    known = fields(spec.request)

    async def run(client: ManagerClient, **given: Any) -> int:
        values = {field.name: given[name] for field in known if (name := _param(field)) in given}
        names = await _resolve(client, values, known)
        request = spec.request(**values)
        if spec.refuse and (problem := spec.refuse(request)):
            raise SettingsError(problem)
        return _print(client, spec, request, await client.do(request), names)

    name, params = spec.name.split()[-1], list(_params(spec, known))
    return click.command(name, help=spec.request.__doc__, params=params)(with_manager(run))


def _params(spec: CommandSpec, known: Iterable[FieldInfo]) -> Iterator[click.Parameter]:
    hints = get_type_hints(spec.request)
    for field in known:
        if field.required or field.name in spec.arguments:
            yield _argument(field, hints[field.name])
    for name, said in spec.options.items():
        (field,) = (each for each in known if each.name == name)
        yield said if isinstance(said, click.Option) else _option(field, hints[name], said)


def _argument(field: FieldInfo, hint: Any) -> click.Argument:
    default = {} if field.default is NODEFAULT else {"default": field.default, "required": False}
    metavar = _METAVARS.get(field.name)
    return click.Argument([_param(field)], type=_type(hint), metavar=metavar, **default)


def _option(field: FieldInfo, hint: Any, help: str) -> click.Option:
    name = _param(field)
    flag = f"--{name.replace('_', '-')}"
    if hint is bool:
        return click.Option([flag, name], is_flag=True, help=help)
    metavar = _METAVARS.get(field.name)
    return click.Option(
        [flag, name], type=_type(hint), default=field.default, metavar=metavar, help=help
    )


def _type(hint: Any) -> Any:
    if get_origin(hint) is Literal:
        return click.Choice(get_args(hint))
    return int if int in (hint, *get_args(hint)) else str


def _param(field: FieldInfo) -> str:
    return _NAMES.get(field.name, field.name)


async def _resolve(
    client: ManagerClient, values: dict[str, Any], known: Iterable[FieldInfo]
) -> dict[str, str]:
    """Replaces what the user typed by what the request needs; gives the names to speak of it."""
    names: dict[str, str] = {}
    if given := values.get("session_id"):
        values["session_id"] = (await client.session(given)).session_id
        names["id"] = short(values["session_id"])
    if given := values.get("worktree_id"):
        row = await client.worktree(given)
        values["worktree_id"] = row.id
        names |= {"branch": harmless_line(row.branch), "path": harmless_line(row.path)}
    for field in known:
        if field.name == "text" and values["text"] != field.default:
            values["text"] = words_of(values["text"])
    return names


def _print(
    client: ManagerClient, spec: CommandSpec, request: Any, answer: Any, names: Mapping[str, str]
) -> int:
    if not isinstance(answer, Done):
        assert spec.lines, spec.name
        client.tell(answer, spec.lines(answer, client))
        return Exit.DONE
    said = spec.done if isinstance(spec.done, str) else spec.done(request)
    told = {name: harmless_line(str(value)) for name, value in _fields_of(request)}
    return client.tell_done(answer, said.format(**{**told, **names}), instead=spec.notes_instead)


def _fields_of(request: Any) -> Iterator[tuple[str, Any]]:
    return ((name, getattr(request, name)) for name in request.__struct_fields__)
