"""`rookery intents validate` and `doctor`: what is wrong with the files of governance."""

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
from rookery.core.settings import HookSettings
from rookery.core.text.terminal_text import Paint, harmless, harmless_line
from rookery.governance.cli.intents_common import (
    FINDINGS,
    WARNINGS,
    CommonOptions,
    GovernedFolder,
    common,
    counted,
    now,
    open_folder,
)
from rookery.governance.external_hooks.hook_files import (
    HookPlaces,
    KnownHook,
    TrustStatus,
    find_hooks,
)
from rookery.governance.external_hooks.hook_trust import HookTrust
from rookery.governance.intents.intent import Intent, IntentStatus, digest
from rookery.governance.intents.intent_checks import changed_without_revision, rendered
from rookery.governance.layout import Layout, find_layout, governed_places, nested_roots
from rookery.governance.ledger.ledger_index import LedgerIndex
from rookery.governance.ledger.ledger_reader import Query, newest
from rookery.governance.ledger.state_files import KnownHeads
from rookery.governance.ledger.traced import TracedRecord
from rookery.governance.scope.command_policy import read_command_policy
from rookery.governance.scope.locations import FilesInScope
from rookery.governance.scope.name_patterns import PatternError
from rookery.governance.scope.scope_rules import read_intent_ignore
from rookery.platform.user_folders import Places

LONGEST_RECORD = MIB


def check_governed(workspace: Path, places: Places, hooks: HookSettings) -> Iterator[Finding]:
    """A line for each of these that there is. Nothing is made, and no ledger is read as a whole."""
    found = find_layout(workspace, workspace)
    if found.layout:
        yield check_intents(found.layout)
        yield from check_ledger(found.layout)
    elif found.notice:
        yield Finding("intents", Health.WARN, found.notice, f"{NAME} intents init")
    yield from check_hooks(workspace, found.layout, places, hooks)


def check_intents(layout: Layout) -> Finding:
    from rookery.governance.intents.intent import IntentStatus
    from rookery.governance.intents.intent_checks import summary
    from rookery.governance.intents.intent_file import IntentReader

    file = IntentReader(layout).read().file
    running = sum(each.status is IntentStatus.IN_PROGRESS for each in file.intents)
    text = f"{running} of {len(file.intents)} in progress."
    if not file.errors:
        return Finding("intents", Health.OK, text)
    health = Health.WARN if file.usable else Health.BAD
    return Finding("intents", health, f"{text} {summary(file)}", f"{NAME} intents validate")


def check_ledger(layout: Layout) -> Iterator[Finding]:
    """By its last record: whether all of it is whole takes the time to read all of it."""
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
    if _ends_well(end):
        told = f"{text}; its last record is valid. To check all of it: {NAME} trace verify"
        yield Finding("ledger", Health.OK, told)
    else:
        broken = f"{text}; its last record is damaged."
        yield Finding("ledger", Health.WARN, broken, f"{NAME} trace verify")


def _ends_well(end: bytes) -> bool:
    from rookery.governance.ledger.traced import records_on

    if not end:
        return True
    *_, last = end.removesuffix(b"\n").split(b"\n")
    return end.endswith(b"\n") and bool(records_on(last))


def check_hooks(
    workspace: Path, layout: Layout | None, places: Places, settings: HookSettings
) -> Iterator[Finding]:
    from rookery.governance.external_hooks.hook_files import (
        HOOK_FILE,
        MANAGED_FILE,
        HookPlaces,
        find_hooks,
    )
    from rookery.governance.external_hooks.hook_trust import HookTrust
    from rookery.governance.layout import hook_trust_file
    from rookery.permissions.trust import TrustStore

    found = find_hooks(
        HookPlaces(
            workspace=workspace,
            managed=MANAGED_FILE,
            user=places.config / HOOK_FILE,
            import_claude=settings.import_claude,
            managed_only=settings.managed_only,
        )
    )
    if not found.hooks and not found.problems:
        return
    # asking where trust is kept would name a workspace that has no name yet
    unnamed = layout is not None and not (layout.state / "workspace_id").exists()
    nowhere = places.governance / "unnamed"
    kept = nowhere if unnamed else hook_trust_file(workspace, places)
    trusted = TrustStore(places.trust_file).trusts(workspace)
    trust = HookTrust(kept, workspace, workspace_trusted=trusted)
    counts = Counter(trust.status(each).may_run for each in found.hooks)
    text = f"{counts[True]} trusted, {counts[False]} untrusted."
    if found.problems:
        wrong = f"{text} {found.problems[0]}"
        yield Finding("hooks", Health.WARN, wrong, f"{NAME} hooks list")
    elif counts[False]:
        yield Finding("hooks", Health.WARN, text, f"{NAME} hooks list")
    else:
        yield Finding("hooks", Health.OK, text)


class Examined(Struct, frozen=True, kw_only=True):
    """One file, what it holds in a few words, and what is wrong with it."""

    file: str
    holds: str
    problems: tuple[Problem, ...] = ()


@click.command("validate")
@click.option("--strict", is_flag=True, help="Exit with 3 if there are only warnings.")
@common
def validate_command(options: CommonOptions, strict: bool) -> int:
    """Validate the governance files and list all problems."""
    governed = open_folder(options)
    examined = examined_files(governed)
    problems = [problem for each in examined for problem in each.problems]
    errors = sum(each.severity is Severity.ERROR for each in problems)
    warnings = len(problems) - errors
    options.say(
        *(line for each in examined for line in _lines(each, options.paint)),
        f"{counted(errors, 'error')}, {counted(warnings, 'warning')}{_broken(governed)}",
    )
    options.tell(
        {
            "files": [{"file": each.file, "holds": each.holds} for each in examined],
            "problems": [each.to_json() for each in problems],
            "errors": errors,
            "warnings": warnings,
            "unusable": sorted(governed.file.broken),
        }
    )
    if errors:
        return FINDINGS
    return WARNINGS if warnings and strict else 0


def examined_files(governed: GovernedFolder) -> list[Examined]:
    return [found for look in LOOKS if (found := look(governed))]


def problems_of(governed: GovernedFolder) -> list[Problem]:
    """Everything that is wrong with the files of governance."""
    return [problem for each in examined_files(governed) for problem in each.problems]


def _intents(governed: GovernedFolder) -> Examined:
    files = FilesInScope(governed.layout.root)

    def matches(pattern: str) -> bool:
        try:
            return files.any(pattern)
        except PatternError:
            return True  # which is told as an error of its own

    file = governed.reader.with_unmatched(governed.text, matches)
    return Examined(
        file=governed.layout.shown(governed.layout.intent_file),
        holds=counted(len(file.intents), "intent"),
        problems=(*file.problems, *_changed_unseen(governed), *nested_roots(governed.layout)),
    )


def _changed_unseen(governed: GovernedFolder) -> list[Problem]:
    """Intents that mean something else than when they were last selected, under the same
    number."""
    if not governed.layout.ledger.exists():
        return []
    found = [_changed(governed, each) for each in governed.file.intents]
    return [each for each in found if each]


def _changed(governed: GovernedFolder, intent: Intent) -> Problem | None:
    if intent.id in governed.file.broken:
        return None
    last = next((each for each in _selections(governed, intent) if each.intent_digest), None)
    if last is None or last.intent_rev is None:
        return None
    # only what is in progress can be selected, so it is compared as if it still were
    as_selected = replace(intent, status=IntentStatus.IN_PROGRESS)
    return changed_without_revision(
        governed.layout.shown(governed.layout.intent_file),
        intent,
        digest=digest(as_selected, governed.file.policy),
        last_digest=last.intent_digest,
        last_revision=last.intent_rev,
    )


def _selections(governed: GovernedFolder, intent: Intent) -> Iterator[TracedRecord]:
    """When the intent was selected, newest first."""
    wanted = Query(intent=intent.id, kind="intent_selected")
    try:
        heads = KnownHeads(governed_places(governed.layout, governed.places).heads)
        yield from LedgerIndex(governed.layout.folder, heads.index).find(wanted)
    except OSError:  # a folder that may only be read has no index
        yield from newest(governed.layout.folder, wanted)


def _exemptions(governed: GovernedFolder) -> Examined | None:
    if not governed.layout.ignore_file.exists():
        return None
    at = now()
    found = read_intent_ignore(governed.layout, [each.id for each in governed.file.intents], at)
    over = [each for each in found.exemptions if each.over(at)]
    entries = len(found.exemptions)
    holds = f"{entries} {'entry' if entries == 1 else 'entries'}"
    if over:
        named = ", ".join(f"{each.intent_id or each.pattern} until {each.until}" for each in over)
        holds += f", {len(over)} expired ({named})"
    return Examined(
        file=governed.layout.shown(governed.layout.ignore_file),
        holds=holds,
        problems=found.problems,
    )


def _command_policy(governed: GovernedFolder) -> Examined | None:
    policy, problems = read_command_policy(governed.layout)
    if not (policy.rules or policy.safe or policy.destructive or problems):
        return None
    rules = len(policy.rules) + len(policy.safe) + len(policy.destructive)
    return Examined(
        file=governed.layout.shown(governed.layout.command_policy_file),
        holds=counted(rules, "rule"),
        problems=problems,
    )


def _hooks(governed: GovernedFolder) -> Examined | None:
    if not governed.layout.hooks_file.exists():
        return None
    name = governed.layout.shown(governed.layout.hooks_file)
    found = find_hooks(HookPlaces(workspace=governed.layout.root))
    return Examined(
        file=name,
        holds=f"{counted(len(found.hooks), 'hook')}{_trusted(governed, found.hooks)}",
        problems=tuple(
            Problem(file=name, code="HOOK", path=each.where, message=each.text)
            for each in found.problems
        ),
    )


def _trusted(governed: GovernedFolder, hooks: Sequence[KnownHook]) -> str:
    try:
        kept = governed_places(governed.layout, governed.places).hook_trust
    except OSError as error:
        return f", trust not known ({error.strerror})"
    trust = HookTrust(kept, governed.layout.root, workspace_trusted=governed.trusted)
    standings = Counter(str(trust.status(each)) for each in hooks)
    if list(standings) == [str(TrustStatus.TRUSTED)]:
        return ", trusted"
    return "".join(f", {number} {standing}" for standing, number in sorted(standings.items()))


LOOKS: tuple[Callable[[GovernedFolder], Examined | None], ...] = (
    _intents,
    _exemptions,
    _hooks,
    _command_policy,
)


def _lines(examined: Examined, paint: Paint) -> Sequence[str]:
    head = f"{examined.file}: {harmless_line(examined.holds)}"
    return [head, *(line for each in examined.problems for line in _told(each, paint))]


def _told(problem: Problem, paint: Paint) -> list[str]:
    """With a way out. An error has its place too; of a warning, the message says enough."""
    if problem.severity is Severity.ERROR:
        return [paint.red(f"  {line}") for line in harmless(rendered(problem)).splitlines()]
    about = "" if problem.intent_id in problem.message else f"{problem.intent_id}: "
    fix = f"; {problem.fix}" if problem.fix else ""
    line = f"  warning {problem.code}  {harmless_line(about + problem.message + fix)}"
    return [paint.yellow(line)]


def _broken(governed: GovernedFolder) -> str:
    if not governed.file.usable:
        return ". No intent can be selected until the file is fixed."
    broken = sorted(governed.file.broken)
    return f". Not selectable: {', '.join(broken)}." if broken else ""
