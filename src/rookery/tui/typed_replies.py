"""What typed words mean as the reply to a question."""

from collections.abc import Sequence

from rookery.core.asks import AskKind, Reply
from rookery.core.commands import Command
from rookery.protocol.client.question_text import chosen, suggestions
from rookery.tui.question_page import APPROVALS, TRIES, Step, answer_letters
from rookery.tui.session_view import Question, Said

_YES, _NO = ("y", "yes"), ("n", "no")


def yes_or_no(said: Said, question: Question) -> Reply | None:
    """What a word alone answers, where yes and no are answers."""
    word = said.text.strip().lower()
    if said.images or question.asked.ask not in (*APPROVALS, *TRIES):
        return None
    return "yes" if word in _YES else "no" if word in _NO else None


def key_alone(said: Said, question: Question) -> str:
    """The key of the question's panel, other than yes or no, that was typed where words go: such
    a letter is no reason. Empty if it is none."""
    letter = said.text.strip().lower()
    if said.images or question.asked.ask not in APPROVALS or letter in (*_YES, *_NO):
        return ""
    return letter if letter in answer_letters(question.asked, Step.ANSWER) else ""


def can_answer(said: Said, question: Question) -> bool:
    """Pictures alone refuse nothing."""
    return bool(said.text) or question.asked.ask not in APPROVALS


def in_words(question: Question, said: Said) -> Sequence[Command]:
    if question.asked.ask is AskKind.FOLLOWUP:
        suggestion = chosen(said.text, suggestions(question.asked.text))
        return question.chosen(suggestion, said.images)
    return question.in_words(said)
