"""`rookery intents new`: create an intent from options, or from answers at the terminal."""

import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import PurePosixPath

import click
from msgspec.structs import replace

from rookery import NAME
from rookery.core.text.terminal_text import aligned, counted
from rookery.errors import RookeryError, SettingsError
from rookery.governance.cli.common import GovernedFolder, ask, governed_command, is_interactive, now
from rookery.governance.cli.intents_changes import IntentChanger, scope_fault
from rookery.governance.intents.file_nodes import Fault
from rookery.governance.intents.intent import (
    Constraint,
    Criterion,
    Intent,
    IntentFile,
    Verify,
    timestamp,
)
from rookery.governance.intents.intent_edits import AddIntent, PlannedChange
from rookery.governance.intents.intent_file import LONGEST_NAME, IntentText
from rookery.governance.intents.intent_parts import LONGEST_CONSTRAINT
from rookery.governance.scope.locations import FilesInScope

_CRITERION = "criterion: how to tell that it is done; commands are run"
DEFAULT_PREFIX = "INT"
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
@governed_command
def new_command(
    governed: GovernedFolder,
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
    _require_valid_id(intent_id)
    by_questions = name is None and not (scope or criteria or checks or constraints)
    if by_questions and is_interactive():
        _free_id(governed.usable, intent_id)  # fail before the user types answers
        asked = _ask_for_intent(description)
    elif name is None:
        raise SettingsError("An intent needs a name: give --name.")
    else:
        asked = Intent(
            id="",
            name=name.strip(),
            owned_scope=tuple(scope),
            acceptance_criteria=(*map(_criterion, criteria), *map(_command_criterion, checks)),
            constraints=tuple(Constraint(text=each) for each in constraints),
            description=description,
        )
    draft = replace(asked, depends_on=tuple(depends_on), parent=parent, created_at=timestamp(now()))
    _require_valid(draft)

    def plan(text: IntentText) -> PlannedChange:
        chosen = _free_id(text.file, intent_id)
        edit = AddIntent(replace(draft, id=chosen))
        return PlannedChange(intent_id=chosen, edits=(edit,), more={"name": draft.name})

    with _command_on_error(draft) if by_questions else nullcontext():
        made = IntentChanger(governed).change("new", plan)
    _print_created(governed, made.after, FilesInScope(governed.layout.root))
    return 0


def next_id(file: IntentFile) -> str:
    """The next number of the most used prefix; the first if several are used equally."""
    found = [match for each in file.intents if (match := _NUMBERED.fullmatch(each.id))]
    if not found:
        return f"{DEFAULT_PREFIX}-001"
    prefix, _ = Counter(each["prefix"] for each in found).most_common(1)[0]
    numbers = [each["number"] for each in found if each["prefix"] == prefix]
    last = max(numbers, key=int)
    return f"{prefix}-{int(last) + 1:0{len(last)}d}"


def name_fault(text: str) -> str:
    if not text.strip() or "\n" in text or len(text) > LONGEST_NAME:
        return f"A name must be one line of 1 to {LONGEST_NAME} characters."
    return ""


def _at_most(longest: int, what: str) -> Fault:
    def fault(text: str) -> str:
        size = len(text)
        most = f"{what} can have at most {longest} characters; this has {size}."
        return most if size > longest else ""

    return fault


description_fault = _at_most(LONGEST_TEXT, "A description")
constraint_fault = _at_most(LONGEST_CONSTRAINT, "A constraint")
criterion_fault = _at_most(LONGEST_TEXT, "A criterion")


@contextmanager
def _command_on_error(draft: Intent) -> Iterator[None]:
    """Print the equivalent command if writing fails, so that typed answers are not lost."""
    try:
        yield
    except RookeryError:
        print("The same as a command:", _as_command(draft), sep="\n", file=sys.stderr)
        raise


def _as_command(draft: Intent) -> str:
    """The command that creates the same intent without questions."""
    options = [
        ("--name", draft.name),
        ("--description", draft.description),
        ("--parent", draft.parent),
        *(("--depends-on", each) for each in draft.depends_on),
        *(("--scope", each) for each in draft.owned_scope),
        *(("--constraint", each.text) for each in draft.constraints),
        *(
            ("--check" if each.verify else "--criterion", each.text)
            for each in draft.acceptance_criteria
        ),
    ]
    given = (word for option, text in options if text for word in (option, text))
    return shlex.join([NAME, "intents", "new", *given])


def _ask_for_intent(description: str) -> Intent:
    return Intent(
        id="",
        name=_ask_one("name", name_fault).strip(),
        description=description or _ask_one("description (may be empty)", description_fault),
        owned_scope=_ask_several("scope, a file or a pattern such as src/api/**", scope_fault),
        constraints=tuple(
            Constraint(text=each)
            for each in _ask_several("constraint, what must not be broken", constraint_fault)
        ),
        acceptance_criteria=tuple(map(_criterion, _ask_several(_CRITERION, criterion_fault))),
    )


def _ask_one(what: str, fault: Fault) -> str:
    """Ask until the answer is valid."""
    while wrong := fault(text := ask(f"{what}: ")):
        print(wrong)
    return text


def _ask_several(what: str, fault: Fault) -> tuple[str, ...]:
    found: list[str] = []
    while text := _ask_one(f"{what} (empty to continue)", lambda text: fault(text) if text else ""):
        found.append(text)
    return tuple(found)


def _criterion(text: str) -> Criterion:
    """A criterion from a text. Known test commands are run as the check."""
    try:
        words = shlex.split(text)
    except ValueError:
        return Criterion(text=text)
    return _command_criterion(text) if _is_check(words) else Criterion(text=text)


def _is_check(words: Sequence[str]) -> bool:
    """Whether it is a known test, linter or build. "make" may start a sentence, so it is not."""
    if not words or words[0] == "make":
        return False
    names = [PurePosixPath(words[0]).name.lower().removesuffix(".exe"), *words[1:]]
    if names[:2] in (["python", "-m"], ["python3", "-m"]):
        names = names[2:]
    runs = names[:1] and names[0] in _RUNNERS
    return bool(_CHECKERS & set(names[:1])) or bool(runs and _CHECK_VERBS & set(names[1:3]))


def _command_criterion(command: str) -> Criterion:
    return Criterion(text=command, verify=Verify(command=command))


def _require_valid_id(intent_id: str) -> None:
    if intent_id and not _ID.fullmatch(intent_id):
        raise SettingsError(
            f"{intent_id} is not an id: use a letter, then letters, digits, . _ or -."
        )


def _require_valid(draft: Intent) -> None:
    faults = [
        name_fault(draft.name),
        *map(scope_fault, draft.owned_scope),
        *(constraint_fault(each.text) for each in draft.constraints),
        *(criterion_fault(each.text) for each in draft.acceptance_criteria),
    ]
    if wrong := next(filter(None, faults), ""):
        raise SettingsError(wrong)


def _free_id(file: IntentFile, wanted: str) -> str:
    if wanted and file.find(wanted):
        raise SettingsError(f"Intent {wanted} already exists; nothing was changed.")
    return wanted or next_id(file)


def _print_created(governed: GovernedFolder, intent: Intent, files: FilesInScope) -> None:
    scope = [
        ["  scope", each, "" if each[:1] == "!" else _matches(files, each)]
        for each in intent.owned_scope
    ]
    criteria = [
        ["  criterion", each.text, "(machine-checked)" if each.verify else "(for a person)"]
        for each in intent.acceptance_criteria
    ]
    rows = [*scope, *criteria]
    governed.echo(
        f"{intent.id} created, status {intent.status}",
        *(aligned(rows) if rows else []),
        f"start it with: {NAME} intents start {intent.id}",
    )
    governed.print_json(
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
