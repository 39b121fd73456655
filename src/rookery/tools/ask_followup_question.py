"""Ask the user a question, with answers to choose from."""

import json
from typing import Annotated, Any, ClassVar

import msgspec

from rookery.core.asks import AskKind
from rookery.core.facts import Answered
from rookery.core.instructions import quoted
from rookery.core.replies import user_message
from rookery.core.tool_traits import ToolGroup, ToolTraits
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext
from rookery.errors import BadArguments

NOBODY = "[automatic] Nobody is there to answer: the user has decided and allowed nothing."
TAKEN = f"{NOBODY} Your own suggestion {{number}} was taken, which says no more than you did:"
DECIDE = f"{NOBODY} Decide yourself and go on."


class Suggestion(msgspec.Struct, forbid_unknown_fields=True):
    text: Annotated[str, msgspec.Meta(description="A whole answer, ready to be sent.")]
    mode: Annotated[str | None, msgspec.Meta(description="Mode to switch to with this answer.")] = (
        None
    )


class AskFollowupQuestionArgs(msgspec.Struct, forbid_unknown_fields=True):
    question: Annotated[str, msgspec.Meta(description="What you need to know, in full.")]
    follow_up: Annotated[
        list[Suggestion],
        msgspec.Meta(min_length=1, max_length=4, description="Answers to offer."),
    ]


class AskFollowupQuestion:
    name: ClassVar[str] = "ask_followup_question"
    description: ClassVar[str] = (
        "Ask the user for what you cannot find out yourself. The task waits for the answer."
    )
    arguments: ClassVar[type[msgspec.Struct]] = AskFollowupQuestionArgs
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS
    traits: ClassVar[ToolTraits] = ToolTraits(
        hook_name="AskUserQuestion", skipped=frozenset({"mode"})
    )

    async def prepare(self, args: AskFollowupQuestionArgs, ctx: ToolContext) -> Action:
        if not args.question.strip():
            raise BadArguments("ask_followup_question was called without a question.")
        data = {"question": args.question, "suggest": [_offered(one) for one in args.follow_up]}

        async def perform(permit: Permit) -> Outcome:
            answer = await ctx.ask(AskKind.FOLLOWUP, json.dumps(data, ensure_ascii=False))
            said = user_message(answer.text) if answer.by == "user" else _by_nobody(answer, args)
            return Outcome(text=said, images=answer.images)

        return Action(
            title="Ask the user",
            perform=perform,
            payload={"tool": "askFollowupQuestion", **data},
        )


def _by_nobody(answer: Answered, args: AskFollowupQuestionArgs) -> str:
    """What the model is told if a rule has answered: no word of it is the user's."""
    offered = [suggestion.text for suggestion in args.follow_up]
    if answer.text not in offered:
        return DECIDE
    taken = TAKEN.format(number=offered.index(answer.text) + 1)
    return f"{taken}\n{quoted('your_suggestion', answer.text)}"


def _offered(suggestion: Suggestion) -> dict[str, Any]:
    mode = {"mode": suggestion.mode} if suggestion.mode else {}
    return {"answer": suggestion.text, **mode}


TOOL = AskFollowupQuestion()
