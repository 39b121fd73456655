"""Everything that decides about paths for one call, put together from the files of this moment."""

from datetime import datetime

from rookery.governance.intents.intent import Intent, Policy
from rookery.governance.scope.floating_patterns import forbidding
from rookery.governance.scope.intent_ignore import IntentIgnore
from rookery.governance.scope.scope_patterns import scope
from rookery.governance.scope.scope_verdict import ScopeRules


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
