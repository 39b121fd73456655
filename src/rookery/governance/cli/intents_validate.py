"""`rookery intents validate`, and the governance checks of `rookery doctor`."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from rookery import NAME
from rookery.core.limits import KIB, MIB
from rookery.core.refusals import Finding, Health, Problem, Severity
from rookery.core.settings import Settings
from rookery.core.text.terminal_text import Paint, counted, harmless, harmless_line
from rookery.governance.cli.common import FINDINGS, WARNINGS, GovernedFolder, governed_command, now
from rookery.governance.external_hooks.hook_files import (
    HookPlaces,
    KnownHook,
    TrustStatus,
    find_hooks,
    hook_places,
)
from rookery.governance.external_hooks.hook_trust import HookTrust
from rookery.governance.intents.intent import Intent, IntentStatus, digest
from rookery.governance.intents.intent_checks import changed_without_revision, render, summary
from rookery.governance.intents.intent_file import IntentReader
from rookery.governance.layout import (
    HOOK_TRUST,
    Layout,
    find_layout,
    known_trust_file,
    nested_roots,
    outside_folder,
)
from rookery.governance.ledger.ledger_reader import Query, newest
from rookery.governance.ledger.traced import TracedRecord, records_on
from rookery.governance.scope.locations import FilesInScope
from rookery.governance.scope.name_patterns import PatternError
from rookery.governance.scope.project_rules import read_command_policy, read_intent_ignore
from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import Places

LONGEST_RECORD = MIB


def check_governed(workspace: Path, places: Places, settings: Settings) -> Iterator[Finding]:
    """Check intents, ledger and hooks. Writes nothing and does not read the whole ledger."""
    found = find_layout(workspace, workspace)
    if found.layout:
        yield check_intents(found.layout)
        yield from check_ledger(found.layout)
    elif found.notice:
        yield Finding("intents", Health.WARN, found.notice, f"{NAME} intents init")
    yield from check_hooks(workspace, places, settings)


def check_intents(layout: Layout) -> Finding:
    file = IntentReader(layout).read().file
    running = sum(each.status is IntentStatus.IN_PROGRESS for each in file.intents)
    text = f"{running} of {len(file.intents)} in progress."
    if not file.errors:
        return Finding("intents", Health.OK, text)
    health = Health.WARN if file.usable else Health.BAD
    return Finding("intents", health, f"{text} {summary(file)}", f"{NAME} intents validate")


def check_ledger(layout: Layout) -> Iterator[Finding]:
    """Check the last record only; reading all of a ledger takes too long."""
    try:
        with layout.ledger.open("rb") as opened:
            size = opened.seek(0, os.SEEK_END)
            opened.seek(max(0, size - LONGEST_RECORD))
            end = opened.read(LONGEST_RECORD)
    except FileNotFoundError:
        return
    except OSError as error:
        yield Finding("ledger", Health.BAD, f"It cannot be read ({error.strerror}).")
        return
    text = f"{max(1, size // KIB):,} KiB in {layout.shown(layout.ledger)}"
    if _ends_with_record(end):
        valid = f"{text}; its last record is valid. To check all of it: {NAME} trace verify"
        yield Finding("ledger", Health.OK, valid)
    else:
        broken = f"{text}; its last record is damaged."
        yield Finding("ledger", Health.WARN, broken, f"{NAME} trace verify")


def _ends_with_record(end: bytes) -> bool:
    if not end:
        return True
    *_, last = end.removesuffix(b"\n").split(b"\n")
    return end.endswith(b"\n") and bool(records_on(last))


def check_hooks(workspace: Path, places: Places, settings: Settings) -> Iterator[Finding]:
    found = find_hooks(hook_places(workspace, places, settings))
    if not found.hooks and not found.problems:
        return
    trust_file = known_trust_file(workspace, places)
    trusted = TrustStore(places.trust_file).trusts(workspace)
    trust = HookTrust(trust_file, workspace, workspace_trusted=trusted)
    counts = Counter(trust.status(each).may_run for each in found.hooks)
    text = f"{counts[True]} trusted, {counts[False]} untrusted."
    if found.problems:
        wrong = f"{text} {found.problems[0]}"
        yield Finding("hooks", Health.WARN, wrong, f"{NAME} hooks list")
    elif counts[False]:
        yield Finding("hooks", Health.WARN, text, f"{NAME} hooks list")
    else:
        yield Finding("hooks", Health.OK, text)


class CheckedFile(Struct, frozen=True, kw_only=True):
    """A checked file: a summary of its content, and its problems."""

    file: str
    holds: str
    problems: tuple[Problem, ...] = ()


@click.command("validate")
@click.option("--strict", is_flag=True, help="Exit with 3 if there are only warnings.")
@governed_command
def validate_command(governed: GovernedFolder, strict: bool) -> int:
    """Validate the governance files and list all problems."""
    checked = check_files(governed)
    problems = [problem for each in checked for problem in each.problems]
    errors = sum(each.severity is Severity.ERROR for each in problems)
    warnings = len(problems) - errors
    governed.echo(
        *(line for each in checked for line in _lines(each, governed.paint)),
        f"{counted(errors, 'error')}, {counted(warnings, 'warning')}{_broken(governed)}",
    )
    governed.print_json(
        {
            "files": [{"file": each.file, "holds": each.holds} for each in checked],
            "problems": [each.to_json() for each in problems],
            "errors": errors,
            "warnings": warnings,
            "unusable": sorted(governed.file.broken),
        }
    )
    if errors:
        return FINDINGS
    return WARNINGS if warnings and strict else 0


def check_files(governed: GovernedFolder) -> list[CheckedFile]:
    return [found for check in FILE_CHECKS if (found := check(governed))]


def problems_of(governed: GovernedFolder) -> list[Problem]:
    """All problems of the governance files."""
    return [problem for each in check_files(governed) for problem in each.problems]


def _intents(governed: GovernedFolder) -> CheckedFile:
    files = FilesInScope(governed.layout.root)

    def matches(pattern: str) -> bool:
        try:
            return files.any(pattern)
        except PatternError:
            return True  # reported as an error already

    file = governed.reader.with_unmatched(governed.text, matches)
    return CheckedFile(
        file=governed.layout.shown(governed.layout.intent_file),
        holds=counted(len(file.intents), "intent"),
        problems=(*file.problems, *_unrevised_changes(governed), *nested_roots(governed.layout)),
    )


def _unrevised_changes(governed: GovernedFolder) -> list[Problem]:
    """Intents whose definition changed since they were last selected while the revision did not."""
    if not governed.layout.ledger.exists():
        return []
    last: dict[str, TracedRecord] = {}
    for record in newest(governed.layout.folder, Query(kind="intent_selected")):
        if record.intent_digest:
            last.setdefault(record.intent_id, record)
    valid = (each for each in governed.file.intents if each.id not in governed.file.broken)
    found = (_unrevised_change(governed, each, last.get(each.id)) for each in valid)
    return [each for each in found if each]


def _unrevised_change(
    governed: GovernedFolder, intent: Intent, last: TracedRecord | None
) -> Problem | None:
    if last is None or last.intent_rev is None:
        return None
    # the recorded digest is of an intent in progress, so the status is set for comparison
    as_selected = replace(intent, status=IntentStatus.IN_PROGRESS)
    return changed_without_revision(
        governed.layout.shown(governed.layout.intent_file),
        intent,
        digest=digest(as_selected, governed.file.policy),
        last_digest=last.intent_digest,
        last_revision=last.intent_rev,
    )


def _exemptions(governed: GovernedFolder) -> CheckedFile | None:
    if not governed.layout.ignore_file.exists():
        return None
    at = now()
    found = read_intent_ignore(governed.layout, [each.id for each in governed.file.intents], at)
    ended = [each for each in found.exemptions if each.has_ended(at)]
    entries = len(found.exemptions)
    holds = f"{entries} {'entry' if entries == 1 else 'entries'}"
    if ended:
        named = ", ".join(f"{each.intent_id or each.pattern} until {each.until}" for each in ended)
        holds += f", {len(ended)} expired ({named})"
    return CheckedFile(
        file=governed.layout.shown(governed.layout.ignore_file),
        holds=holds,
        problems=found.problems,
    )


def _command_policy(governed: GovernedFolder) -> CheckedFile | None:
    policy, problems = read_command_policy(governed.layout)
    if not (policy.rules or policy.safe or policy.destructive or problems):
        return None
    rules = len(policy.rules) + len(policy.safe) + len(policy.destructive)
    return CheckedFile(
        file=governed.layout.shown(governed.layout.command_policy_file),
        holds=counted(rules, "rule"),
        problems=problems,
    )


def _hooks(governed: GovernedFolder) -> CheckedFile | None:
    if not governed.layout.hooks_file.exists():
        return None
    name = governed.layout.shown(governed.layout.hooks_file)
    found = find_hooks(HookPlaces(workspace=governed.layout.root))
    return CheckedFile(
        file=name,
        holds=f"{counted(len(found.hooks), 'hook')}{_trusted(governed, found.hooks)}",
        problems=tuple(
            Problem(file=name, code="HOOK", path=each.where, message=each.text)
            for each in found.problems
        ),
    )


def _trusted(governed: GovernedFolder, hooks: Sequence[KnownHook]) -> str:
    try:
        trust_file = outside_folder(governed.layout, governed.places.governance) / HOOK_TRUST
    except OSError as error:
        return f", trust not known ({error.strerror})"
    trust = HookTrust(trust_file, governed.layout.root, workspace_trusted=governed.trusted)
    standings = Counter(str(trust.status(each)) for each in hooks)
    if list(standings) == [str(TrustStatus.TRUSTED)]:
        return ", trusted"
    return "".join(f", {number} {standing}" for standing, number in sorted(standings.items()))


FILE_CHECKS: tuple[Callable[[GovernedFolder], CheckedFile | None], ...] = (
    _intents,
    _exemptions,
    _hooks,
    _command_policy,
)


def _lines(checked: CheckedFile, paint: Paint) -> Sequence[str]:
    head = f"{checked.file}: {harmless_line(checked.holds)}"
    return [head, *(line for each in checked.problems for line in _problem_lines(each, paint))]


def _problem_lines(problem: Problem, paint: Paint) -> list[str]:
    """Lines for a problem. Errors have a location; a warning's message is enough."""
    if problem.severity is Severity.ERROR:
        return [paint.red(f"  {line}") for line in harmless(render(problem)).splitlines()]
    about = "" if problem.intent_id in problem.message else f"{problem.intent_id}: "
    fix = f"; {problem.fix}" if problem.fix else ""
    line = f"  warning {problem.code}  {harmless_line(about + problem.message + fix)}"
    return [paint.yellow(line)]


def _broken(governed: GovernedFolder) -> str:
    if not governed.file.usable:
        return ". No intent can be selected until the file is fixed."
    broken = sorted(governed.file.broken)
    return f". Not selectable: {', '.join(broken)}." if broken else ""
