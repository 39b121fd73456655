"""How an intent is worded, line by line, for a person who has to agree to a new wording."""

from collections.abc import Iterator

from msgspec.structs import fields

from rookery.governance.intents.intent_changes import Definition

UNCHANGED = "It is worded as before."


def difference(old: Definition, new: Definition) -> tuple[str, ...]:
    """What was taken out of an intent, then what was put in."""
    before, after = list(_lines(old)), list(_lines(new))
    out = [f"- {line}" for line in before if line not in after]
    put = [f"+ {line}" for line in after if line not in before]
    return (*out, *put) or (UNCHANGED,)


def _lines(worded: Definition) -> Iterator[str]:
    intent, policy = worded.intent, worded.policy
    yield f"status: {intent.status}"
    yield from (f"scope: {each}" for each in intent.owned_scope)
    yield from (f"constraint: {each.text}" for each in intent.constraints)
    for criterion in intent.acceptance_criteria:
        check = f" (checked by {criterion.verify.command})" if criterion.verify else ""
        yield f"criterion: {criterion.text}{check}"
    for kind in fields(intent.permissions):
        yield from (f"{kind.name}: {rule}" for rule in getattr(intent.permissions, kind.name))
    for limit in fields(intent.budget):
        if (most := getattr(intent.budget, limit.name)) is not None:
            yield f"{limit.name}: {most}"
    if intent.parent:
        yield f"parent: {intent.parent}"
    for rule in fields(policy):
        yield f"policy {rule.name}: {getattr(policy, rule.name)}"
