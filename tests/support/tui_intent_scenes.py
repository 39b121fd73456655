"""A task that works on an intent, with questions about changes outside its scope."""

import json

from rookery.core.asks import AskedReason, AskedTarget, AskKind, IntentQuestion
from rookery.core.blocks import Text, ToolCall
from rookery.core.facts import (
    Asked,
    AssistantSpoke,
    IntentSelected,
    RequestStarted,
    ToolFinished,
    ToolStarted,
    Usage,
)
from rookery.core.queries import KnownIntent
from support.scripted_host import ScriptedHost

INTENTS = (
    KnownIntent(
        id="INT-001",
        name="JWT auth migration",
        status="IN_PROGRESS",
        scope=("src/auth/**", "tests/auth/**"),
    ),
    KnownIntent(id="INT-003", name="割引 in percent", status="IN_PROGRESS", scope=("prices.py",)),
    KnownIntent(id="INT-002", name="User interface", status="PENDING", problem="it is PENDING"),
)
SELECTED = IntentSelected(
    intent_id="INT-001", name="JWT auth migration", scope=("src/auth/**", "tests/auth/**")
)
WHY = "INT-001 may not change src/api/user.py."
PATCH = """\
*** Update src/auth/jwt.py
@@ -8,1 +8,1 @@
-from shop.api.user import current
+from shop.api.user import current, verified
*** Update src/api/user.py
@@ -21,2 +21,2 @@
 def verified(request):
-    return session(request)
+    return jwt.check(request.token)"""
OUTSIDE = IntentQuestion(
    intent_id="INT-001",
    intent_name="JWT auth migration",
    scope=("src/auth/**", "tests/auth/**"),
    reasons=(AskedReason(code="REQ-001", error_type="scope_violation", text=WHY),),
    targets=(
        AskedTarget(path="src/auth/jwt.py", op="modify", verdict="in_scope"),
        AskedTarget(
            path="src/api/user.py", op="modify", verdict="out_of_scope", nearest="src/auth/**"
        ),
    ),
    pattern="src/api/user.py",
    grant="src/api/user.py",
    choices=("task", "expand", "halt"),
)
GOVERNED = Asked(
    ask_id="a6",
    ask=AskKind.TOOL,
    text=json.dumps(
        {"tool": "appliedDiff", "path": "src/auth/jwt.py", "content": PATCH, "diffStats": {}}
    ),
    title="Edit 2 files",
    diff=PATCH,
    call_id="c6",
    digest="d6",
    notes=(WHY,),
    governance=OUTSIDE,
)


def asking_beyond_the_scope(host: ScriptedHost) -> None:
    choose = ToolCall(id="c5", name="select_active_intent", arguments={"intent_id": "INT-001"})
    patch = ToolCall(id="c6", name="apply_patch", arguments={"patch": PATCH})
    host.tell(
        RequestStarted(request_id="r1", model="claude-opus-4.6"),
        AssistantSpoke(
            request_id="r1",
            blocks=(Text(text="This belongs to the migration."), choose),
            usage=Usage(tokens_in=18_210, tokens_out=212, cost=0.0971),
        ),
        ToolStarted(call_id="c5", tool="select_active_intent", title="Work for intent INT-001"),
        ToolFinished(call_id="c5", text="INT-001"),
        SELECTED,
        RequestStarted(request_id="r2", model="claude-opus-4.6"),
        AssistantSpoke(
            request_id="r2",
            blocks=(Text(text="The caller has to check the token as well."), patch),
            usage=Usage(tokens_in=21_800, tokens_out=410, cost=0.0411),
        ),
        GOVERNED,
    )
