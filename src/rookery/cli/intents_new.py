"""`rookery intents new`: an intent is described, by options or by answers at a terminal."""

import re
import shlex
from collections import Counter
from collections.abc import Sequence

import click

from rookery import NAME
from rookery.cli.intents_changes import Changing, Plan
from rookery.cli.intents_desk import (
    Wishes,
    aligned,
    asked,
    at_a_terminal,
    common,
    counted,
    now,
    open_desk,
    stamp,
)
from rookery.core.intents.braces import PatternError
from rookery.core.intents.earned_lessons import check_type
from rookery.core.intents.intent import Constraint, Criterion, Intent, IntentFile, Status, Verify
from rookery.core.intents.scope_patterns import scope_pattern
from rookery.core.values import value
from rookery.errors import SettingsError
from rookery.workspace.orchestration.files_in_scope import FilesInScope
from rookery.workspace.orchestration.intent_edits import AddIntent

USUAL_PREFIX = "INT"
_NUMBERED = re.compile(r"(?P<prefix>[A-Za-z][A-Za-z0-9_.-]*?)-(?P<number>\d{1,9})")
_ID = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_NOT_CHECKS = {"make"}
"""A sentence may begin with it as well as a command."""


@value
class Described:
    """An intent as somebody describes it. `checks` are commands whose success proves something."""

    name: str
    scope: tuple[str, ...] = ()
    criteria: tuple[Criterion, ...] = ()
    constraints: tuple[str, ...] = ()
    description: str = ""
    depends_on: tuple[str, ...] = ()
    parent: str = ""


@click.command("new")
@click.option("--name", help="What it is about, in a line.")
@click.option("--id", "intent_id", default="", help="Its id; the next free one if not given.")
@click.option("--scope", multiple=True, metavar="PATTERN", help="Files it may change. Repeatable.")
@click.option(
    "--criterion",
    "criteria",
    multiple=True,
    metavar="TEXT",
    help="How one can tell that it is done; a test command is run to find out. Repeatable.",
)
@click.option(
    "--check",
    "checks",
    multiple=True,
    metavar="COMMAND",
    help="A command whose success shows that it is done. Repeatable.",
)
@click.option("--constraint", "constraints", multiple=True, help="What must hold. Repeatable.")
@click.option("--description", default="", help="More about it.")
@click.option("--depends-on", multiple=True, metavar="ID", help="What is to be done before.")
@click.option("--parent", default="", metavar="ID", help="The intent it is a part of.")
@common
def new_command(
    wishes: Wishes,
    name: str | None,
    intent_id: str,
    scope: Sequence[str],
    criteria: Sequence[str],
    checks: Sequence[str],
    constraints: Sequence[str],
    description: str,
    depends_on: Sequence[str],
    parent: str,
) -> int:
    """Describe something that is to be done. Without options it asks field by field."""
    desk = open_desk(wishes)
    if name is None and not (scope or criteria or checks or constraints) and at_a_terminal():
        described = _described_by_answers()
    elif name is None:
        raise SettingsError("An intent needs a name: give --name.")
    else:
        described = Described(
            name=name,
            scope=tuple(scope),
            criteria=(*map(_criterion, criteria), *map(_checked, checks)),
            constraints=tuple(constraints),
            description=description,
            depends_on=tuple(depends_on),
            parent=parent,
        )
    _insist_on_sense(described, intent_id)

    def plan(file: IntentFile) -> Plan:
        chosen = _free_id(file, intent_id)
        edit = AddIntent(_intent(chosen, described))
        return Plan(intent_id=chosen, edits=(edit,), more={"name": described.name})

    made = Changing(desk).change("new", plan)
    _tell(wishes, made.after, FilesInScope(desk.layout.root))
    return 0


def next_id(file: IntentFile) -> str:
    """The next number of the prefix that is used most, the first of equals."""
    found = [match for each in file.intents if (match := _NUMBERED.fullmatch(each.id))]
    if not found:
        return f"{USUAL_PREFIX}-001"
    prefix, _ = Counter(each["prefix"] for each in found).most_common(1)[0]
    numbers = [each["number"] for each in found if each["prefix"] == prefix]
    last = max(numbers, key=int)
    return f"{prefix}-{int(last) + 1:0{len(last)}d}"


def _described_by_answers() -> Described:
    name = asked("name: ")
    return Described(
        name=name,
        description=asked("description (may be empty): "),
        scope=_several("scope, a file or a pattern such as src/api/**"),
        constraints=_several("constraint"),
        criteria=tuple(map(_criterion, _several("criterion, a sentence or a test command"))),
    )


def _several(what: str) -> tuple[str, ...]:
    found: list[str] = []
    while said := asked(f"{what} (empty to go on): "):
        found.append(said)
    return tuple(found)


def _criterion(said: str) -> Criterion:
    """A test command is recognised; everything else is for a person to decide."""
    try:
        words = shlex.split(said)
    except ValueError:
        return Criterion(text=said)
    known = words and check_type(words) is not None and words[0] not in _NOT_CHECKS
    return _checked(said) if known else Criterion(text=said)


def _checked(command: str) -> Criterion:
    return Criterion(text=command, verify=Verify(command=command))


def _insist_on_sense(described: Described, intent_id: str) -> None:
    if intent_id and not _ID.fullmatch(intent_id):
        raise SettingsError(
            f"{intent_id} is no id: it begins with a letter and has letters, digits, . _ or -."
        )
    if not described.name.strip() or "\n" in described.name or len(described.name) > 200:
        raise SettingsError("A name has one line of 1 to 200 characters.")
    for each in described.scope:
        try:
            scope_pattern(each)
        except PatternError as error:
            raise SettingsError(f"{each}: {error}.") from error


def _free_id(file: IntentFile, wanted: str) -> str:
    if wanted and file.find(wanted):
        raise SettingsError(f"There is an intent {wanted} already; nothing was changed.")
    return wanted or next_id(file)


def _intent(intent_id: str, described: Described) -> Intent:
    return Intent(
        id=intent_id,
        name=described.name.strip(),
        status=Status.PENDING,
        description=described.description,
        owned_scope=described.scope,
        constraints=tuple(Constraint(text=each) for each in described.constraints),
        acceptance_criteria=described.criteria,
        depends_on=described.depends_on,
        parent=described.parent,
        created_at=stamp(now()),
    )


def _tell(wishes: Wishes, intent: Intent, files: FilesInScope) -> None:
    scope = [
        ["  scope", each, "" if each[:1] == "!" else _matches(files, each)]
        for each in intent.owned_scope
    ]
    criteria = [
        ["  criterion", each.text, "(machine-checked)" if each.verify else "(for a person)"]
        for each in intent.acceptance_criteria
    ]
    rows = [*scope, *criteria]
    wishes.say(
        f"{intent.id} created, status {intent.status}",
        *(aligned(rows) if rows else []),
        f"start it with: {NAME} intents start {intent.id}",
    )
    wishes.tell(
        {
            "id": intent.id,
            "name": intent.name,
            "status": str(intent.status),
            "scope": list(intent.owned_scope),
            "criteria": [
                {"text": each.text, "machine_checked": each.verify is not None}
                for each in intent.acceptance_criteria
            ],
        }
    )


def _matches(files: FilesInScope, pattern: str) -> str:
    return f"(matches {counted(files.count(pattern), 'file')})"
