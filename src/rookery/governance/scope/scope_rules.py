"""Protected and exempt paths: `policy.protect` and `.intentignore`.

`active_scope` combines both with the patterns of an intent. The patterns are those of .gitignore:
without a `/` they apply at any depth. Protecting patterns also ignore case and Unicode composition.
`.intentignore` exempts from the scope only; an invalid line exempts nothing.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, date, datetime

from msgspec import Struct

from rookery.core.limits import KIB
from rookery.core.refusals import Problem
from rookery.core.text.characters import caseless
from rookery.governance.intents.intent import Intent, Policy
from rookery.governance.layout import Layout
from rookery.governance.scope.name_patterns import PatternError, alternatives
from rookery.governance.scope.scope_patterns import scope
from rookery.governance.scope.scope_verdict import BIDIRECTIONAL, ScopeRules
from rookery.platform.disk import Unreadable, small_file
from rookery.platform.paths import FileRules, file_pattern

LARGEST = 256 * KIB
_UNTIL = re.compile(r"(?P<target>.*?)\s+until=(?P<day>\S*)")
_LOOKS_LIKE_ID = re.compile(r"[A-Z][A-Z0-9]*(?:-[A-Z0-9]+)*-\d+", re.ASCII)


class Exemption(Struct, frozen=True, kw_only=True):
    """A line of `.intentignore`: an intent or a pattern. `negated` marks a `!` line."""

    line: str
    number: int
    intent_id: str = ""
    pattern: str = ""
    negated: bool = False
    until: date | None = None

    def has_ended(self, now: datetime) -> bool:
        return self.until is not None and now.astimezone(UTC).date() >= self.until


class IntentIgnore(Struct, frozen=True, kw_only=True):
    exemptions: tuple[Exemption, ...] = ()
    problems: tuple[Problem, ...] = ()

    def for_intent(self, intent_id: str, now: datetime) -> str:
        """The line that exempts the whole intent; empty if none does."""
        found = (
            each.line
            for each in self.exemptions
            if each.intent_id == intent_id and not each.has_ended(now)
        )
        return next(found, "")

    def for_path(self, now: datetime) -> Callable[[str], str]:
        """Return a function from a path to the line that exempts it, empty if none does."""
        lines = [each for each in self.exemptions if each.pattern]

        def exempting_line(path: str) -> str:
            if any(each.negated and covers(each.pattern, path) for each in lines):
                return ""
            granting = (each for each in lines if not each.negated and not each.has_ended(now))
            return next((each.line for each in granting if covers(each.pattern, path)), "")

        return exempting_line


def active_scope(
    intent: Intent,
    policy: Policy,
    ignore: IntentIgnore,
    *,
    now: datetime,
    ignore_case: bool = False,
) -> ScopeRules:
    """Combine the rules for a valid intent. `ignore_case` if the file system does."""
    find = protection_lookup(policy.protect)

    def why_protected(path: str) -> str:
        pattern = find(path)
        return f"the policy protects {pattern}" if pattern else ""

    return ScopeRules(
        patterns=intent.owned_scope,
        scope=scope(intent.owned_scope, ignore_case=ignore_case),
        policy=policy,
        protected=why_protected,
        exempt=ignore.for_path(now),
        exempt_intent=ignore.for_intent(intent.id, now),
    )


def read_intent_ignore(layout: Layout, known: Collection[str], now: datetime) -> IntentIgnore:
    """Read `.intentignore`. `known` are the ids of all intents."""
    name = layout.shown(layout.ignore_file)
    try:
        data = small_file(layout.ignore_file, layout.workspace, largest=LARGEST)
        text = data.decode("utf-8-sig")
    except FileNotFoundError:
        return IntentIgnore()
    except Unreadable as error:
        return IntentIgnore(problems=(Problem(file=name, code=error.code, message=str(error)),))
    except UnicodeDecodeError:
        return IntentIgnore(problems=(Problem(file=name, code="E101", message="it is not UTF-8"),))
    return parse_intent_ignore(text, known, now, file=name)


def parse_intent_ignore(
    text: str, known: Collection[str], now: datetime, *, file: str = ".intentignore"
) -> IntentIgnore:
    exemptions: list[Exemption] = []
    problems: list[Problem] = []
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.rstrip()
        if not line or line.startswith("#"):
            continue
        entry, problem = _parse_line(line, number, known, now, file)
        if entry:
            exemptions.append(entry)
        if problem:
            problems.append(problem)
    return IntentIgnore(exemptions=tuple(exemptions), problems=tuple(problems))


def ignore_pattern_fault(text: str) -> str:
    """What is wrong with a pattern; empty if it is valid."""
    try:
        return "" if file_pattern(text) else "a pattern may not be empty or a comment"
    except ValueError as error:
        return str(error)


def protection_lookup(patterns: Sequence[str]) -> Callable[[str], str]:
    """Return a function from a path to the protecting pattern; empty if there is none."""
    rules = [
        (text, FileRules.of_ignore_file(spellings), FileRules.of_ignore_file(folded))
        for text in patterns
        for spellings in (_spellings(text),)
        for folded in ([caseless(each) for each in spellings],)
    ]

    def matching_pattern(path: str) -> str:
        composed, plain = unicodedata.normalize("NFC", path), caseless(path)
        found = (
            text for text, exact, loose in rules if exact.cover(composed) or loose.cover(plain)
        )
        return next(found, "")

    return matching_pattern


def covers(pattern: str, path: str) -> bool:
    """Whether an exempting pattern matches the path, case included."""
    rules = FileRules.of_ignore_file([unicodedata.normalize("NFC", pattern)])
    return rules.cover(unicodedata.normalize("NFC", path))


def _parse_line(
    line: str, number: int, known: Collection[str], now: datetime, file: str
) -> tuple[Exemption | None, Problem | None]:
    def problem(code: str, message: str, fix: str = "") -> Problem:
        return Problem(
            file=file, line=number, column=1, code=code, text=line, message=message, fix=fix
        )

    until, target = None, line
    if dated := _UNTIL.fullmatch(line):
        target = dated["target"]
        try:
            until = date.fromisoformat(dated["day"])
        except ValueError:
            return None, problem("E213", "this is not a date", "write it like until=2026-12-31")
    if any(char in BIDIRECTIONAL or char < " " for char in line):
        return None, problem("E206", "it has a control character", "remove it")
    intent_id = _intent_id(target, known)
    if intent_id is not None:
        entry = Exemption(line=line, number=number, intent_id=intent_id, until=until)
        if intent_id not in known:
            return entry, problem("W301", f"no such intent: {intent_id}")
    else:
        bare = target.removeprefix("!").removeprefix("path:")
        if wrong := ignore_pattern_fault(bare):
            return None, problem("E206", wrong, "write it as in .gitignore")
        entry = Exemption(
            line=line,
            number=number,
            pattern=bare,
            negated=target.startswith("!"),
            until=until,
        )
    if entry.has_ended(now):
        return entry, problem("W310", f"the exemption of {target} ended on {until}")
    unknown = entry.pattern and _LOOKS_LIKE_ID.fullmatch(entry.pattern)
    return entry, problem("W301", f"no such intent: {target}") if unknown else None


def _intent_id(target: str, known: Collection[str]) -> str | None:
    if target.startswith("intent:"):
        return target.removeprefix("intent:").strip()
    return target if target in known else None


def _spellings(text: str) -> list[str]:
    composed = unicodedata.normalize("NFC", text)
    try:
        return list(dict.fromkeys((composed, *alternatives(composed))))
    except PatternError:
        return [composed]
