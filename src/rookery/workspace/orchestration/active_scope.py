"""Everything that decides about paths for one call, put together from the files of this moment."""

from datetime import datetime

from rookery.core.intents.intent import Intent, Policy
from rookery.core.intents.scope_patterns import scope
from rookery.core.intents.scope_verdict import ScopeRules
from rookery.workspace.orchestration.floating_patterns import forbidding
from rookery.workspace.orchestration.intent_ignore import IntentIgnore


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
