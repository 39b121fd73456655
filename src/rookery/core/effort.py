"""How hard a model should think before it answers, in the words that vendors share."""

from typing import Literal, TypeAlias, get_args

Effort: TypeAlias = Literal[
    "unspecified", "disabled", "none", "minimal", "low", "medium", "high", "xhigh"
]
EFFORTS: tuple[Effort, ...] = get_args(Effort)
NOT_AT_ALL = ("disabled", "none")
"""Both are in use; they mean the same."""


def effort_word(effort: Effort) -> str:
    """What most servers call it; nothing if it is left to the model."""
    if effort == "unspecified":
        return ""
    return "none" if effort in NOT_AT_ALL else effort
