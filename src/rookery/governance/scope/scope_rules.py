"""What is protected and what is exempt: `policy.protect` and `.intentignore`.

`active_scope` puts both together with an intent's own patterns. These patterns are read as in
.gitignore: without a `/` they hold anywhere. Patterns that forbid also ignore case and composition.
`.intentignore` exempts from the scope and from nothing else; a faulty line exempts nothing.
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
_UNTIL = re.compile(r"(?P<said>.*?)\s+until=(?P<day>\S*)")
_LIKE_AN_ID = re.compile(r"[A-Z][A-Z0-9]*(?:-[A-Z0-9]+)*-\d+", re.ASCII)


class Exemption(Struct, frozen=True, kw_only=True):
    """One line. Either `intent_id` or `pattern` is empty; `taken_back` is what a `!` line is."""

    line: str
    number: int
    intent_id: str = ""
    pattern: str = ""
    taken_back: bool = False
    until: date | None = None

    def over(self, now: datetime) -> bool:
        return self.until is not None and now.astimezone(UTC).date() >= self.until


class IntentIgnore(Struct, frozen=True, kw_only=True):
    exemptions: tuple[Exemption, ...] = ()
    problems: tuple[Problem, ...] = ()

    def for_intent(self, intent_id: str, now: datetime) -> str:
        """The line that exempts the whole intent; empty if none does."""
        found = (
            each.line
            for each in self.exemptions
            if each.intent_id == intent_id and not each.over(now)
        )
        return next(found, "")

    def for_path(self, now: datetime) -> Callable[[str], str]:
        """Says which line exempts a path; empty if none does."""
        lines = [each for each in self.exemptions if each.pattern]

        def line_over(path: str) -> str:
            if any(each.taken_back and covers(each.pattern, path) for each in lines):
                return ""
            granting = (each for each in lines if not each.taken_back and not each.over(now))
            return next((each.line for each in granting if covers(each.pattern, path)), "")

        return line_over


def active_scope(
    intent: Intent,
    policy: Policy,
    ignore: IntentIgnore,
    *,
    now: datetime,
    ignore_case: bool = False,
) -> ScopeRules:
    """`ignore_case` if the volume does. The intent must be one without errors."""
    over = forbidding(policy.protect)

    def why_protected(path: str) -> str:
        pattern = over(path)
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
    """What the file says at this moment. `known` are the ids of all intents."""
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
    return parsed_ignore(text, known, now, file=name)


def parsed_ignore(
    text: str, known: Collection[str], now: datetime, *, file: str = ".intentignore"
) -> IntentIgnore:
    exemptions: list[Exemption] = []
    problems: list[Problem] = []
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.rstrip()
        if not line or line.startswith("#"):
            continue
        entry, problem = _entry(line, number, known, now, file)
        if entry:
            exemptions.append(entry)
        if problem:
            problems.append(problem)
    return IntentIgnore(exemptions=tuple(exemptions), problems=tuple(problems))


def floating_fault(text: str) -> str:
    """What is wrong with a pattern; empty if nothing is."""
    try:
        return "" if file_pattern(text) else "a pattern may not be empty or a comment"
    except ValueError as error:
        return str(error)


def forbidding(patterns: Sequence[str]) -> Callable[[str], str]:
    """Says which of the patterns a path falls under; empty if under none."""
    rules = [
        (text, FileRules.of_ignore_file(spellings), FileRules.of_ignore_file(folded))
        for text in patterns
        for spellings in (_spellings(text),)
        for folded in ([caseless(each) for each in spellings],)
    ]

    def pattern_over(path: str) -> str:
        composed, plain = unicodedata.normalize("NFC", path), caseless(path)
        found = (
            text for text, exact, loose in rules if exact.cover(composed) or loose.cover(plain)
        )
        return next(found, "")

    return pattern_over


def covers(pattern: str, path: str) -> bool:
    """Whether one exempting pattern means the path, exactly as it is spelled."""
    rules = FileRules.of_ignore_file([unicodedata.normalize("NFC", pattern)])
    return rules.cover(unicodedata.normalize("NFC", path))


def _entry(
    line: str, number: int, known: Collection[str], now: datetime, file: str
) -> tuple[Exemption | None, Problem | None]:
    def problem(code: str, message: str, fix: str = "") -> Problem:
        return Problem(
            file=file, line=number, column=1, code=code, text=line, message=message, fix=fix
        )

    until, said = None, line
    if limited := _UNTIL.fullmatch(line):
        said = limited["said"]
        try:
            until = date.fromisoformat(limited["day"])
        except ValueError:
            return None, problem("E213", "this is not a date", "write it like until=2026-12-31")
    if any(sign in BIDIRECTIONAL or sign < " " for sign in line):
        return None, problem("E206", "it has a control character", "remove it")
    intent_id = _intent_id(said, known)
    if intent_id is not None:
        entry = Exemption(line=line, number=number, intent_id=intent_id, until=until)
        if intent_id not in known:
            return entry, problem("W301", f"no such intent: {intent_id}")
    else:
        bare = said.removeprefix("!").removeprefix("path:")
        if wrong := floating_fault(bare):
            return None, problem("E206", wrong, "write it as in .gitignore")
        entry = Exemption(
            line=line,
            number=number,
            pattern=bare,
            taken_back=said.startswith("!"),
            until=until,
        )
    if entry.over(now):
        return entry, problem("W310", f"the exemption of {said} ended on {until}")
    unknown = entry.pattern and _LIKE_AN_ID.fullmatch(entry.pattern)
    return entry, problem("W301", f"no such intent: {said}") if unknown else None


def _intent_id(said: str, known: Collection[str]) -> str | None:
    if said.startswith("intent:"):
        return said.removeprefix("intent:").strip()
    return said if said in known else None


def _spellings(text: str) -> list[str]:
    composed = unicodedata.normalize("NFC", text)
    try:
        return list(dict.fromkeys((composed, *alternatives(composed))))
    except PatternError:
        return [composed]
