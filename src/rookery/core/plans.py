"""The steps of a plan, as a to-do list."""

import hashlib
import json

from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.facts import Asked, Todo
from rookery.core.modes import Level
from rookery.first_use import lazy_pattern

MOST_STEPS = 100
BARE_ANSWERS = frozenset({"y", "yes", "ok", "go", "n", "no", *"123456789"})
"""Words and digits that neither say how to carry a plan out nor what to change in it."""
PLAN_ANSWERS = {
    "Carry it out, and ask before each change": Level.ASK,
    "Carry it out, and edit files without asking": Level.EDITS,
    "Carry it out without asking": Level.AUTO,
}
"""The answers that approve a plan, with the level that each carries it out with."""
_COMMENT = "{comment}\n\nThis is about my version of the plan:\n\n{plan}"
_FENCE = ("```", "~~~")
_BOX = lazy_pattern(r"\s*(?:[-*+]|\d+[.)])\s+\[[ xX~-]\]\s+(\S.*)")
_NUMBERED = lazy_pattern(r" ? ?\d+[.)]\s+(\S.*)")


def plan_steps(markdown: str) -> tuple[Todo, ...]:
    """The items of its checklists, or else of its numbered lists; none if it has neither."""
    lines = list(_outside_code(markdown))
    found = [item[1].rstrip() for line in lines if (item := _BOX.fullmatch(line))]
    found = found or [item[1].rstrip() for line in lines if (item := _NUMBERED.fullmatch(line))]
    return tuple(
        Todo(id=_id(number, step), content=step)
        for number, step in enumerate(found[:MOST_STEPS], start=1)
    )


def comment_on(plan: str, comment: str, *, proposed: str) -> str:
    """The comment for the model, with the user's version of the plan if they edited it."""
    return comment if plan == proposed else _COMMENT.format(comment=comment, plan=plan)


def as_followup(asked: Asked) -> Asked:
    """The question about a plan for clients that know follow-up questions only. One of the
    suggested answers approves it, any other is a comment."""
    question = f"Carry out this plan?\n\n{asked.plan}"
    text = json.dumps({"question": question, "suggest": [*PLAN_ANSWERS]}, ensure_ascii=False)
    return replace(asked, ask=AskKind.FOLLOWUP, text=text)


def _outside_code(markdown: str) -> list[str]:
    lines, fence = [], ""
    for line in markdown.splitlines():
        mark = line.lstrip()[:3]
        if fence:
            fence = "" if mark == fence else fence
        elif mark in _FENCE:
            fence = mark
        else:
            lines.append(line)
    return lines


def _id(number: int, step: str) -> str:
    return hashlib.sha256(f"{number} {step}".encode("utf-8", "replace")).hexdigest()[:16]
