"""Rules of the project: protected and exempt paths, and rules for commands.

`active_scope` combines `policy.protect` and `.intentignore` with the patterns of an intent. Their
patterns are those of .gitignore: without a `/` they apply at any depth. Protecting patterns also
ignore case and Unicode composition. `.intentignore` exempts from the scope only; an invalid line
exempts nothing.

Command rules are in `command_policy.yaml` and the older `command-policy.json`. A rule is a list of
tokens that a simple command must start with. The examples of a rule are checked when the file is
read, so a rule that does not match as intended is an error. The strictest matching rule decides.
"""

import re
import shlex
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, date, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from rookery.core.asks import Decision
from rookery.core.limits import KIB
from rookery.core.path_patterns import path_pattern
from rookery.core.refusals import Problem
from rookery.core.text.characters import caseless
from rookery.governance.intents.file_nodes import ListNode, MapNode, Node
from rookery.governance.intents.intent import Intent, Policy
from rookery.governance.layout import Layout
from rookery.governance.scope.name_patterns import PatternError, alternatives
from rookery.governance.scope.scope_patterns import scope
from rookery.governance.scope.scope_verdict import BIDIRECTIONAL, ScopeRules
from rookery.governance.yaml_nodes import yaml_nodes
from rookery.platform.disk import Unreadable, small_file
from rookery.platform.paths import FileRules, file_pattern

LARGEST = 256 * KIB
_UNTIL = re.compile(r"(?P<target>.*?)\s+until=(?P<day>\S*)")
_LOOKS_LIKE_ID = re.compile(r"[A-Z][A-Z0-9]*(?:-[A-Z0-9]+)*-\d+", re.ASCII)


class Exemption(Struct, frozen=True, kw_only=True):
    """A line of `.intentignore`: an intent or a pattern. `negated` marks a `!` line."""

    line: str
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
    text = _read_text(layout.ignore_file, layout)
    if isinstance(text, Problem):
        return IntentIgnore(problems=(text,))
    return parse_intent_ignore(text or "", known, now, file=layout.shown(layout.ignore_file))


def _read_text(path: Path, layout: Layout) -> str | Problem | None:
    """The text of a file of the project; None if there is none."""
    name = layout.shown(path)
    try:
        return small_file(path, layout.workspace, largest=LARGEST).decode("utf-8-sig")
    except FileNotFoundError:
        return None
    except Unreadable as error:
        return Problem(file=name, code=error.code, message=str(error))
    except UnicodeDecodeError:
        return Problem(file=name, code="E101", message="it is not UTF-8")


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
        entry = Exemption(line=line, intent_id=intent_id, until=until)
        if intent_id not in known:
            return entry, problem("W301", f"no such intent: {intent_id}")
    else:
        bare = target.removeprefix("!").removeprefix("path:")
        if wrong := ignore_pattern_fault(bare):
            return None, problem("E206", wrong, "write it as in .gitignore")
        negated = target.startswith("!")
        entry = Exemption(line=line, pattern=bare, negated=negated, until=until)
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


_DECISIONS = {"allow": Decision.ALLOW, "ask": Decision.ASK, "deny": Decision.DENY}
_KEYS = {"prefix", "decision", "justification", "match", "not_match"}
OLDER_NAME = "command-policy.json"


class CommandRule(Struct, frozen=True, kw_only=True):
    """`prefix` lists the alternatives for each token."""

    prefix: tuple[tuple[str, ...], ...]
    decision: Decision
    justification: str = ""
    match: tuple[tuple[str, ...], ...] = ()
    not_match: tuple[tuple[str, ...], ...] = ()

    def matches(self, words: Sequence[str]) -> bool:
        return len(words) >= len(self.prefix) and all(
            word in alternatives for word, alternatives in zip(words, self.prefix, strict=False)
        )


class CommandPolicy(Struct, frozen=True, kw_only=True):
    """`safe` and `destructive` are the regular expressions of the older `command-policy.json`."""

    rules: tuple[CommandRule, ...] = ()
    safe: tuple[str, ...] = ()
    destructive: tuple[str, ...] = ()


Opinion: TypeAlias = tuple[Decision, str]
"""A decision and its reason."""
_NO_OPINION: Opinion = (Decision.NONE, "")


def opinion(
    policy: CommandPolicy, commands: Sequence[Sequence[str]], *, redirects: bool
) -> Opinion:
    """Return the strictest opinion on the simple commands, or ALLOW if every one is allowed.

    `redirects` means output goes into a file; `safe` expressions do not allow that.
    """
    each = [_opinion_of(policy, words, redirects=redirects) for words in commands]
    if each and all(decision is Decision.ALLOW for decision, _ in each):
        return each[0]
    strict = [one for one in each if one[0] > Decision.ALLOW]
    return max(strict, key=itemgetter(0), default=_NO_OPINION)


def read_policy(document: Any) -> tuple[CommandPolicy, tuple[str, ...]]:
    """Parse a policy file. Returns the rules and the faults; faulty allow rules are dropped."""
    if not isinstance(document, Mapping) or not isinstance(document.get("rules", []), list):
        return CommandPolicy(), ("the file must have a list named rules",)
    rules: list[CommandRule] = []
    faults: list[str] = []
    for number, entry in enumerate(document.get("rules", [])):
        try:
            rule = _rule(entry)
        except ValueError as error:
            faults.append(f"rules[{number}]: {error}")
            continue
        wrong = _failing_examples(rule)
        faults += [f"rules[{number}]: {each}" for each in wrong]
        if not wrong or rule.decision is not Decision.ALLOW:
            rules.append(rule)
    safe, bad_safe = _expressions(document, "safe")
    destructive, bad_destructive = _expressions(document, "destructive")
    policy = CommandPolicy(rules=tuple(rules), safe=safe, destructive=destructive)
    return policy, (*faults, *bad_safe, *bad_destructive)


def read_command_policy(layout: Layout) -> tuple[CommandPolicy, tuple[Problem, ...]]:
    """Read both files. Returns the combined rules and the problems found."""
    paths = (layout.command_policy_file, layout.folder / OLDER_NAME)
    read = [_read(path, layout) for path in paths]
    policy = CommandPolicy(
        rules=tuple(rule for each, _ in read for rule in each.rules),
        safe=tuple(source for each, _ in read for source in each.safe),
        destructive=tuple(source for each, _ in read for source in each.destructive),
    )
    return policy, tuple(problem for _, problems in read for problem in problems)


def _opinion_of(policy: CommandPolicy, words: Sequence[str], *, redirects: bool) -> Opinion:
    found = [(rule.decision, rule.justification) for rule in policy.rules if rule.matches(words)]
    text = shlex.join(words)
    for source in policy.destructive:
        if path_pattern(source).found_in(text, unclear=True):
            found.append((Decision.ASK, f"destructive: {source}"))
    for source in policy.safe:
        if not redirects and path_pattern(source).found_in(text):
            found.append((Decision.ALLOW, f"safe: {source}"))
    return max(found, key=itemgetter(0), default=_NO_OPINION)


def _rule(entry: Any) -> CommandRule:
    if not isinstance(entry, Mapping):
        raise ValueError("a rule is a mapping with prefix and decision")
    if unknown := set(entry) - _KEYS:
        raise ValueError(f"{min(map(str, unknown))} is not a known field")
    decision = _DECISIONS.get(str(entry.get("decision")))
    if decision is None:
        raise ValueError("decision must be allow, ask or deny")
    prefix = entry.get("prefix")
    if not isinstance(prefix, list) or not prefix:
        raise ValueError("prefix is a list of tokens, such as [git, [fetch, pull]]")
    return CommandRule(
        prefix=tuple(map(_alternatives, prefix)),
        decision=decision,
        justification=str(entry.get("justification") or ""),
        match=_examples(entry, "match"),
        not_match=_examples(entry, "not_match"),
    )


def _alternatives(token: Any) -> tuple[str, ...]:
    tokens = token if isinstance(token, list) else [token]
    if not tokens or not all(isinstance(each, str) and each for each in tokens):
        raise ValueError("a token of prefix is a text, or a list of texts")
    return tuple(tokens)


def _examples(entry: Mapping[str, Any], key: str) -> tuple[tuple[str, ...], ...]:
    examples = entry.get(key) or []
    if not isinstance(examples, list):
        raise ValueError(f"{key} must be a list of commands")
    return tuple(tuple(shlex.split(str(each))) for each in examples)


def _failing_examples(rule: CommandRule) -> list[str]:
    missed = [
        f"it does not match {shlex.join(each)}" for each in rule.match if not rule.matches(each)
    ]
    caught = [f"it matches {shlex.join(each)}" for each in rule.not_match if rule.matches(each)]
    return missed + caught


def _expressions(document: Mapping[str, Any], key: str) -> tuple[tuple[str, ...], list[str]]:
    sources = document.get(key) or []
    if not isinstance(sources, list):
        return (), [f"{key} must be a list of regular expressions"]
    good: list[str] = []
    faults: list[str] = []
    for source in map(str, sources):
        try:
            path_pattern(source)
            good.append(source)
        except ValueError as error:
            faults.append(f"{key}: {source}: {error}")
    return tuple(good), faults


def _read(path: Path, layout: Layout) -> tuple[CommandPolicy, Sequence[Problem]]:
    text, name = _read_text(path, layout), layout.shown(path)
    if text is None or isinstance(text, Problem):
        return CommandPolicy(), (text,) if text else ()
    root, problems = yaml_nodes(text, name)
    if root is None:
        return CommandPolicy(), problems
    policy, wrong = read_policy(_to_builtins(root))
    return policy, [Problem(file=name, code="E214", message=each) for each in wrong]


def _to_builtins(node: Node) -> Any:
    match node:
        case MapNode(entries=entries):
            return {each.key.text: _to_builtins(each.value) for each in entries}
        case ListNode(items=items):
            return [_to_builtins(each) for each in items]
        case _:
            return node.text
