"""`rookery intents new`: an intent is described, by options or by answers at a terminal."""

import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import PurePosixPath

import click
from msgspec import Struct

from rookery import NAME
from rookery.core.text.terminal_text import harmless_line
from rookery.errors import RookeryError, SettingsError
from rookery.governance.cli.intents_changes import Changing, PlannedChange
from rookery.governance.cli.intents_common import (
    CommonOptions,
    aligned,
    asked,
    at_a_terminal,
    common,
    counted,
    now,
    open_folder,
    stamp,
)
from rookery.governance.intents.file_nodes import Fault
from rookery.governance.intents.intent import (
    Constraint,
    Criterion,
    Intent,
    IntentFile,
    IntentStatus,
    Verify,
)
from rookery.governance.intents.intent_edits import AddIntent
from rookery.governance.intents.intent_file import LONGEST_NAME
from rookery.governance.intents.intent_parts import LONGEST_CONSTRAINT
from rookery.governance.scope.locations import FilesInScope
from rookery.governance.scope.name_patterns import PatternError
from rookery.governance.scope.scope_patterns import scope_pattern

_CRITERION = "criterion: how to tell that it is done; commands are run"
USUAL_PREFIX = "INT"
_NUMBERED = re.compile(r"(?P<prefix>[A-Za-z][A-Za-z0-9_.-]*?)-(?P<number>\d{1,9})")
_ID = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_CHECKERS = frozenset(
    {"pytest", "unittest", "tox", "nox", "jest", "vitest", "phpunit", "rspec"}
    | {"ruff", "flake8", "pylint", "eslint", "shellcheck", "clippy", "bandit", "semgrep"}
    | {"mypy", "pyright", "tsc", "flow", "make", "cmake", "ninja", "javac", "webpack"}
)
_RUNNERS = frozenset({"cargo", "go", "npm", "yarn", "pnpm", "mvn", "gradle", "dotnet", "just"})
_CHECK_VERBS = frozenset(
    {"test", "lint", "clippy", "vet", "typecheck", "check", "build", "compile"}
)
LONGEST_TEXT = 4000


class Described(Struct, frozen=True, kw_only=True):
    """An intent as somebody describes it. `checks` are commands whose success proves something."""

    name: str
    scope: tuple[str, ...] = ()
    criteria: tuple[Criterion, ...] = ()
    constraints: tuple[str, ...] = ()
    description: str = ""
    depends_on: tuple[str, ...] = ()
    parent: str = ""

    def as_command(self) -> str:
        """What describes the same without questions."""
        words = [NAME, "intents", "new", "--name", self.name]
        words += ["--description", self.description] if self.description else []
        words += ["--parent", self.parent] if self.parent else []
        for each in self.depends_on:
            words += ["--depends-on", each]
        for each in self.scope:
            words += ["--scope", each]
        for each in self.constraints:
            words += ["--constraint", each]
        for criterion in self.criteria:
            words += ["--check" if criterion.verify else "--criterion", criterion.text]
        return shlex.join(words)


@click.command("new")
@click.option("--name", help="The name, in one line.")
@click.option("--id", "intent_id", default="", help="The id; default the next free one.")
@click.option("--scope", multiple=True, metavar="PATTERN", help="Files it may change. Repeatable.")
@click.option(
    "--criterion",
    "criteria",
    multiple=True,
    metavar="TEXT",
    help="How to tell that it is done; test commands are run. Repeatable.",
)
@click.option(
    "--check",
    "checks",
    multiple=True,
    metavar="COMMAND",
    help="A command that succeeds when it is done. Repeatable.",
)
@click.option(
    "--constraint",
    "constraints",
    multiple=True,
    help="A constraint: what must not be broken. Repeatable.",
)
@click.option("--description", default="", help="A description.")
@click.option(
    "--depends-on", multiple=True, metavar="ID", help="Intents that must be completed first."
)
@click.option("--parent", default="", metavar="ID", help="The parent intent.")
@common
def new_command(
    options: CommonOptions,
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
    """Create an intent. Without options, it asks for each field."""
    _insist_on_id(intent_id)
    governed = open_folder(options)
    by_answers = name is None and not (scope or criteria or checks or constraints)
    if by_answers and at_a_terminal():
        _free_id(governed.usable, intent_id)  # before anybody types in vain
        described = _described_by_answers(description, tuple(depends_on), parent)
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
    _insist_on_sense(described)

    def plan(file: IntentFile) -> PlannedChange:
        chosen = _free_id(file, intent_id)
        edit = AddIntent(_intent(chosen, described))
        return PlannedChange(intent_id=chosen, edits=(edit,), more={"name": described.name})

    with _kept_words(described) if by_answers else nullcontext():
        made = Changing(governed).change("new", plan)
    _tell(options, made.after, FilesInScope(governed.layout.root))
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


def name_fault(said: str) -> str:
    if not said.strip() or "\n" in said or len(said) > LONGEST_NAME:
        return f"A name must be one line of 1 to {LONGEST_NAME} characters."
    return ""


def scope_fault(said: str) -> str:
    try:
        scope_pattern(said)
    except PatternError as error:
        return f"{harmless_line(said)}: {error}."
    return ""


def description_fault(said: str) -> str:
    return _too_long("A description", said, LONGEST_TEXT)


def constraint_fault(said: str) -> str:
    return _too_long("A constraint", said, LONGEST_CONSTRAINT)


def criterion_fault(said: str) -> str:
    return _too_long("A criterion", said, LONGEST_TEXT)


@contextmanager
def _kept_words(described: Described) -> Iterator[None]:
    """What somebody typed is not lost if it cannot be written down now."""
    try:
        yield
    except RookeryError:
        print("The same as a command:", described.as_command(), sep="\n", file=sys.stderr)
        raise


def _described_by_answers(description: str, depends_on: tuple[str, ...], parent: str) -> Described:
    return Described(
        name=_one("name", name_fault),
        description=description or _one("description (may be empty)", description_fault),
        scope=_several("scope, a file or a pattern such as src/api/**", scope_fault),
        constraints=_several("constraint, what must not be broken", constraint_fault),
        criteria=tuple(map(_criterion, _several(_CRITERION, criterion_fault))),
        depends_on=depends_on,
        parent=parent,
    )


def _one(what: str, fault: Fault) -> str:
    """What somebody answers, asked again until it makes sense."""
    while wrong := fault(said := asked(f"{what}: ")):
        print(wrong)
    return said


def _several(what: str, fault: Fault) -> tuple[str, ...]:
    found: list[str] = []
    while said := _one(f"{what} (empty to continue)", lambda said: fault(said) if said else ""):
        found.append(said)
    return tuple(found)


def _criterion(said: str) -> Criterion:
    """A test command is recognised; everything else is for a person to decide."""
    try:
        words = shlex.split(said)
    except ValueError:
        return Criterion(text=said)
    return _checked(said) if _is_check(words) else Criterion(text=said)


def _is_check(words: Sequence[str]) -> bool:
    """Whether a command is a known test, linter or build. A sentence may begin with "make"."""
    if not words or words[0] == "make":
        return False
    names = [PurePosixPath(words[0]).name.lower().removesuffix(".exe"), *words[1:]]
    if names[:2] in (["python", "-m"], ["python3", "-m"]):
        names = names[2:]
    runs = names[:1] and names[0] in _RUNNERS
    return bool(_CHECKERS & set(names[:1])) or bool(runs and _CHECK_VERBS & set(names[1:3]))


def _checked(command: str) -> Criterion:
    return Criterion(text=command, verify=Verify(command=command))


def _insist_on_id(intent_id: str) -> None:
    if intent_id and not _ID.fullmatch(intent_id):
        raise SettingsError(
            f"{intent_id} is not an id: use a letter, then letters, digits, . _ or -."
        )


def _insist_on_sense(described: Described) -> None:
    faults = [
        name_fault(described.name),
        *map(scope_fault, described.scope),
        *map(constraint_fault, described.constraints),
        *(criterion_fault(each.text) for each in described.criteria),
    ]
    if wrong := next(filter(None, faults), ""):
        raise SettingsError(wrong)


def _free_id(file: IntentFile, wanted: str) -> str:
    if wanted and file.find(wanted):
        raise SettingsError(f"Intent {wanted} already exists; nothing was changed.")
    return wanted or next_id(file)


def _intent(intent_id: str, described: Described) -> Intent:
    return Intent(
        id=intent_id,
        name=described.name.strip(),
        status=IntentStatus.PENDING,
        description=described.description,
        owned_scope=described.scope,
        constraints=tuple(Constraint(text=each) for each in described.constraints),
        acceptance_criteria=described.criteria,
        depends_on=described.depends_on,
        parent=described.parent,
        created_at=stamp(now()),
    )


def _tell(options: CommonOptions, intent: Intent, files: FilesInScope) -> None:
    scope = [
        ["  scope", each, "" if each[:1] == "!" else _matches(files, each)]
        for each in intent.owned_scope
    ]
    criteria = [
        ["  criterion", each.text, "(machine-checked)" if each.verify else "(for a person)"]
        for each in intent.acceptance_criteria
    ]
    rows = [*scope, *criteria]
    options.say(
        f"{intent.id} created, status {intent.status}",
        *(aligned(rows) if rows else []),
        f"start it with: {NAME} intents start {intent.id}",
    )
    options.tell(
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


def _too_long(what: str, said: str, longest: int) -> str:
    much = len(said)
    return (
        f"{what} can have at most {longest} characters; this has {much}." if much > longest else ""
    )
