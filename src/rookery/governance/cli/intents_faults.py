"""What makes no sense in the description of an intent, in a sentence; empty if nothing is wrong."""

from rookery.core.text.terminal_text import harmless_line
from rookery.governance.intents.intent_parts import LONGEST_CONSTRAINT
from rookery.governance.intents.intent_reader import LONGEST_NAME
from rookery.governance.scope.braces import PatternError
from rookery.governance.scope.scope_patterns import scope_pattern

LONGEST_TEXT = 4000


def name_fault(said: str) -> str:
    if not said.strip() or "\n" in said or len(said) > LONGEST_NAME:
        return f"A name has one line of 1 to {LONGEST_NAME} characters."
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


def _too_long(what: str, said: str, longest: int) -> str:
    much = len(said)
    return f"{what} has at most {longest} characters; this has {much}." if much > longest else ""
