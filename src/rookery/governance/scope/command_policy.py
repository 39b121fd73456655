"""Command rules of the project, from `command_policy.yaml` and the older `command-policy.json`.

A rule is a list of tokens that a simple command must start with. The examples of a rule are checked
when the file is read, so a rule that does not match as intended is an error. The strictest matching
rule decides.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from rookery.core.asks import Decision
from rookery.core.limits import KIB
from rookery.core.path_patterns import path_pattern
from rookery.core.refusals import Problem
from rookery.governance.intents.file_nodes import ListNode, MapNode, Node
from rookery.governance.layout import Layout
from rookery.governance.yaml_nodes import yaml_nodes
from rookery.platform.disk import Unreadable, small_file

_DECISIONS = {"allow": Decision.ALLOW, "ask": Decision.ASK, "deny": Decision.DENY}
_KEYS = {"prefix", "decision", "justification", "match", "not_match"}
LARGEST = 256 * KIB
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


class Opinion(Struct, frozen=True):
    decision: Decision = Decision.NONE
    reason: str = ""


def opinion(
    policy: CommandPolicy, commands: Sequence[Sequence[str]], *, redirects: bool
) -> Opinion:
    """Return the strictest opinion on the simple commands, or ALLOW if every one is allowed.

    `redirects` means output goes into a file; `safe` expressions do not allow that.
    """
    if not commands:
        return Opinion()
    each = [_opinion_of(policy, words, redirects=redirects) for words in commands]
    if all(one.decision is Decision.ALLOW for one in each):
        return each[0]
    strict = [one for one in each if one.decision > Decision.ALLOW]
    return max(strict, key=lambda one: one.decision, default=Opinion())


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
    found = [
        Opinion(rule.decision, rule.justification) for rule in policy.rules if rule.matches(words)
    ]
    text = shlex.join(words)
    for source in policy.destructive:
        if path_pattern(source).found_in(text, unclear=True):
            found.append(Opinion(Decision.ASK, f"destructive: {source}"))
    for source in policy.safe:
        if not redirects and path_pattern(source).found_in(text):
            found.append(Opinion(Decision.ALLOW, f"safe: {source}"))
    return max(found, key=lambda one: one.decision, default=Opinion())


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
    name = layout.shown(path)
    try:
        text = small_file(path, layout.workspace, largest=LARGEST).decode("utf-8-sig")
    except FileNotFoundError:
        return CommandPolicy(), ()
    except Unreadable as error:
        return CommandPolicy(), (Problem(file=name, code=error.code, message=str(error)),)
    except UnicodeDecodeError:
        return CommandPolicy(), (Problem(file=name, code="E101", message="it is not UTF-8"),)
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
