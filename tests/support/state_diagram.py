"""The state diagram in docs/manager.md, drawn from the transition table. `make pages` runs this.

Events of the agent are drawn at the working states only; in other states they mean that it works
again.
"""

from pathlib import Path

from rookery.manager.sessions.session_states import (
    TABLE,
    TRUE_IN,
    WORKING,
    SessionState,
    Signal,
    TransitionRule,
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "manager.md"
BEGIN = "<!-- drawn from the code by make pages -->\n"
END = "<!-- end of the drawing -->\n"
USER = {
    Signal.START_SESSION: "start",
    Signal.SEND_MESSAGE: "send",
    Signal.APPROVE_ACTION: "approve",
    Signal.REJECT_ACTION: "reject",
    Signal.CANCEL_SESSION: "stop",
    Signal.RESUME_SESSION: "resume",
    Signal.RETRY: "retry",
}
AGENT = {
    Signal.API_REQ_STARTED: "first request",
    Signal.ASK_APPROVAL: "asks for approval",
    Signal.ASK_FOLLOWUP: "asks a question",
    Signal.ASK_COMPLETION_RESULT: "finishes",
    Signal.ASK_RESUME_TASK: "is interrupted",
    Signal.ASK_FAILURE: "fails",
}
PROCESS = {
    Signal.CREATION_TIMEOUT: "fails",
    Signal.PROCESS_ERROR: "fails",
    Signal.EXIT_FAILED: "fails",
    Signal.EXIT_CLEAN: "finishes",
    Signal.EXIT_CLEAN_ASKING: "process ends",
}
DRAWN_IN = (
    (USER, frozenset(SessionState)),
    (AGENT, WORKING),
    (PROCESS, TRUE_IN["is_active"]),
)


def diagram() -> str:
    edges: dict[tuple[SessionState, SessionState], dict[str, None]] = {}
    for words, states in DRAWN_IN:
        for signal, said in words.items():
            for state, cell in TABLE[signal].items():
                if cell.to and state in states and cell.rule is not TransitionRule.IF_C_ELSE_DEFER:
                    edges.setdefault((state, cell.to), {})[said] = None
    order = [*SessionState]
    drawn = sorted(edges, key=lambda edge: (order.index(edge[0]), order.index(edge[1])))
    lines = [f"    {start} --> {end}: {', '.join(edges[start, end])}" for start, end in drawn]
    return "\n".join(["```mermaid", "stateDiagram-v2", "    [*] --> idle", *lines, "```", ""])


def with_diagram(document: str) -> str:
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{diagram()}{END}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(with_diagram(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
