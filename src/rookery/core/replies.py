"""Every sentence the engine sends to a model."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from rookery.core.facts import AgentTask, FellBack, FilesRestored, Spent
from rookery.core.instructions import quoted
from rookery.first_use import lazy_pattern

_PROBLEMS = lazy_pattern(r"^(New problems:|\d+ new errors? in ).*\Z", re.MULTILINE | re.DOTALL)
_USERS_TAG = lazy_pattern(r"<(/?\s*user_message)", re.IGNORECASE)

NO_TOOL_USED = (
    "[automatic] Your last answer called no tool, so nothing happened. Take the next step with a "
    "tool; call ask_followup_question if you lack information, or attempt_completion if the task "
    "is done. Do not answer this note in words."
)
BLOCKED = "Blocked: {}. To allow a host permanently, add it to sandbox.hosts in your settings."
OWN_LOCALHOST = (
    "Commands have a localhost of their own, so this machine's {where} was not reached. "
    'To allow it, add it to your settings: sandbox.hosts = ["{where}"]'
)
BLOCKED_FOR_NOW = (
    "Blocked: {}. Commands can reach only known hosts. Continue without it, unless a later message "
    "says that the user allowed it. The user can also add it to sandbox.hosts in the settings."
)
ALLOWED_NOW = (
    "[automatic] The user has allowed commands to reach {}. Run the command again if you need it."
)
CUT_OFF = (
    "[automatic] Your last answer was cut off at the output limit. Go on in smaller steps: one "
    "tool call at a time, and large files in several edits. If it was your final answer, give it "
    "again in fewer words."
)
EMPTY_ANSWER = (
    "[automatic] Your last answer was empty. Take the next step with a tool; if the task is done, "
    "say so in words."
)
WRITTEN_CALL = (
    "[automatic] Your last answer contains a {tool} call as text, so it was not run. Make a real "
    "tool call. If you did not mean to call a tool, repeat your answer."
)
NOT_BEGUN = (
    "[automatic] To-do items are open and you have called no tool yet. The user cannot reply: "
    "take the next step with a tool. If there is nothing to do, repeat your answer."
)
NEW_PROBLEMS = "New problems:"
NO_ANSWER = "The model's answer was empty."
CONTEXT_CUT = (
    "[automatic] The middle of this conversation was left out because it no longer fits; what the "
    "user said there stands above. Read again whatever you need before you change it."
)
SUMMARY = "[automatic] What happened in the part that was left out, in your own words:\n{summary}"
SUMMARISE = (
    "[automatic] The conversation no longer fits and its older part is about to be left out. Write "
    "what you must know of it to go on as if nothing had been lost; call no tool. In this order: "
    "what the user wants, with their exact words where they matter; what was decided and why; the "
    "files that matter, with the names and lines in them that count; what was changed, and how "
    "it was checked; errors and what mended them; what is being done now, and the next step. Leave "
    "out greetings, what is finished and of no more use, and this note."
)
PLAN_APPROVED = (
    "[automatic] The user approved the plan as it is now among the environment details. Carry it "
    "out, and keep the todo list up to date."
)
GO_ON = "[automatic] Go on."
NEVER_RUN = (
    "This call was not run: the task was interrupted first. Call again if it is still needed."
)
NOTHING_RETURNED = "(no output)"
AFTER_DENIAL = "This call was not run because an earlier call of the same answer was denied."
AFTER_COMPLETION = "This call was not run because the task had already been offered as complete."
AFTER_DELEGATING = (
    "This call was not run: new_task must be called alone, so later calls in the same answer are "
    "skipped. Look at the sub-task's result first, then call again if you still need to."
)
COMPLETION_TOO_EARLY = (
    "The task was not offered as complete, because another call of the same answer failed. "
    "Look at its result first."
)
TOO_MANY_CALLS = "This call was not run: one answer may hold at most {limit} calls."
REPEATED = (
    "This call was not run: the same call with the same arguments was already made {times} times "
    "in a row. The result will not change; try something else."
)
LOOPING = "The model keeps calling {tool} with the same arguments. What should it do instead?"
REFUSED_AGAIN = (
    "The model made the same call {times} times, and it was refused each time. Should it continue?"
)
STOPPED_BY_HOOK = "A hook stopped the task: "
STOPPED_BY_USER = (
    "The user stopped this command before it ended. What it had done until then stays done."
)
CONDENSED = (
    "The conversation was condensed from about {before:,} to {after:,} tokens. {how} "
    "Nothing was deleted; /rewind restores it."
)
NOTHING_TO_CONDENSE = "The conversation cannot be shortened further; it is sent as it is."
SUMMARISED = "The older part was summarised."
LEFT_OUT = "The older part is no longer sent."
NOT_SUMMARISED = "No summary ({why}), so the older part is left out."
HISTORY_REPAIRED = "The provider rejected the conversation; earlier reasoning is no longer sent."
PUT_BACK = (
    "[automatic] Your last command changed protected files; they were restored: "
    "{paths}. If the task needs the change, make it with a file tool, which asks the "
    "user."
)
UNDONE = (
    "[automatic] The user restored earlier versions of files: {paths}. Read them "
    "again before you rely on them."
)
CALL_UNDONE = (
    "The user has undone this call. These files are again as they were before it: {paths}. Do not "
    "make the call again unless the user asks for it."
)
CALL_TAKEN_BACK = (
    "The user has taken the conversation back to before this call; what it did to files stays "
    "done. Do not make the call again unless the user asks for it."
)
KEPT_FROM_YOU = (
    "{path} is hidden from you by the user; nothing was done. Continue without it, "
    "or ask the user for what you need to know."
)
CREDENTIALS = (
    "{path} holds credentials, which no tool opens; nothing was done. Ask the user "
    "for what you need to know."
)
NAMED_FILES = 5
NO_FILE_PUT_BACK = "No files had to be restored."
FILE_AS_SPECIFIED = "The file is as you specified it; there is no need to read it again."
FILES_AS_SPECIFIED = "The files are as you specified them; there is no need to read them again."
AS_SPECIFIED = (FILE_AS_SPECIFIED, FILES_AS_SPECIFIED)
EDITED_BESIDE = "Your edit was applied. There were other changes before it; see below."
CHANGED_BESIDE = (
    "[automatic] {path} had changed since you read it, but not in the lines that you edited. "
    "What had changed before your edit:\n{difference}"
)
NOT_AS_SPECIFIED = "Another program changed it after it was written; see below."
AMENDED = (
    "[automatic] Right after it was written, a formatter or another program changed {path}. "
    "It now differs from what you wrote:\n{difference}"
)
REMOVED = (
    "[automatic] Right after it was written, a formatter or another program removed {path}, or "
    "replaced it by a link."
)


def stuck(mistakes: int) -> str:
    count = "a mistake" if mistakes == 1 else f"{mistakes} mistakes in a row"
    return f"The model made {count}. Give it a hint, or answer yes to let it try again."


def fell_back(model: str, to: FellBack) -> str:
    """The note that another model answers, or why it cannot. The failure itself is shown before."""
    if to.problem:
        return f"Skipped the fallback {to.model}. {to.problem}"
    return f"{model} cannot answer. Continuing with {to.model} until your next message."


def restored_files(restored: FilesRestored) -> str:
    """The result of a restore, for the user."""
    if not restored.count and not restored.kept:
        return NO_FILE_PUT_BACK
    files = f"{restored.count} {'file' if restored.count == 1 else 'files'}"
    named = ", ".join(restored.paths[:NAMED_FILES])
    more = ", …" if restored.count > NAMED_FILES else ""
    which = f": {named}{more}" if named else ""
    kept = ", ".join(restored.kept)
    others = f" Skipped, because someone else changed them: {kept}." if kept else ""
    return f"Restored {files}{which}.{others}"


def user_message(text: str) -> str:
    return f"<user_message>\n{text}\n</user_message>"


def not_the_user(text: str) -> str:
    """Foreign text with everything removed that could pass for the user's."""
    return _USERS_TAG.sub(r"<\\\1", text) if "<" in text else text


def environment_details(sections: Mapping[str, str]) -> str:
    """Sections by title, as the model reads them."""
    parts = (f"# {title}\n{text}" for title, text in sections.items())
    return quoted("environment_details", "\n\n".join(parts))


def denied(reason: str = "") -> str:
    said = {"feedback": reason} if reason else {"message": "The user denied this call."}
    return _json({"status": "denied", **said})


def failed(message: str) -> str:
    return _json({"status": "error", "message": message})


def approved_with(feedback: str, result: str) -> str:
    return _json({"status": "approved", "feedback": feedback}) + "\n\n" + result


def sentence_in(result: str) -> str:
    """The text passed to `denied` or `failed`, also after an approval; otherwise the result."""
    head, _, rest = result.partition("\n\n")
    match _parsed(head):
        case {"status": "approved"}:
            result = rest
    match _parsed(result):
        case {"status": "denied", "feedback": str(words)}:
            return words
        case {"status": "denied" | "error", "message": str(words)}:
            return words
        case {"code": str(code), "message": str(words), "error_type": str()}:
            return f"{words} ({code})"
        case _:
            return result


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


LONGEST_ANSWER = 24_000
"""Characters of one agent's answer in the result of a call."""
APPLY_WORK = 'Apply it with run_agents(apply="{branch}"), or leave it in {worktree}.'


class AgentEnd(Struct, frozen=True):
    """How an agent ended. `work` is the diffstat of a worker's changes."""

    fate: Literal["done", "failed", "stopped", "out of budget"]
    text: str = ""
    used: Spent = Spent()
    work: str = ""


def agents_report(agents: Sequence[AgentTask], ends: Sequence[AgentEnd]) -> str:
    """The results of agents for the model that started them, in its order."""
    counts = Counter(end.fate for end in ends)
    first = ", ".join(f"{count} {fate}" for fate, count in counts.items())
    parts = [_agent_report(*each) for each in zip(agents, ends, strict=True)]
    return "\n\n".join([f"The agents have ended: {first}.", *parts])


def _agent_report(agent: AgentTask, end: AgentEnd) -> str:
    requests = "1 request" if end.used.requests == 1 else f"{end.used.requests} requests"
    cost = f", ${end.used.cost:.4f}" if end.used.cost else ""
    answer = end.text.strip()
    if len(answer) > LONGEST_ANSWER:
        left = len(answer) - LONGEST_ANSWER
        answer = f"{answer[:LONGEST_ANSWER]}\n[{left} characters left out]"
    lines = [f"# {agent.name} ({agent.kind}): {end.fate}, {requests}{cost}", answer]
    if end.work:
        how = APPLY_WORK.format(branch=agent.branch, worktree=agent.worktree)
        lines += [f"Changed on branch {agent.branch}:\n{end.work}\n{how}"]
    elif agent.worktree:
        lines += ["It changed no files."]
    return "\n".join(filter(None, lines))


def new_problems(result: str) -> str:
    """What the result of an edit says about problems that it caused; empty if nothing."""
    found = _PROBLEMS.search(result)
    return found[0] if found else ""
