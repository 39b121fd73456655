"""What is settled before a session starts: whether the folder is trusted."""

import sys
from collections.abc import Callable
from contextlib import suppress
from enum import Enum

from rookery import NAME
from rookery.cli.options import FrontEnd, Options
from rookery.core.text.terminal_text import harmless
from rookery.errors import StorageError, ToolError
from rookery.permissions.trust import TrustStore, never_trusted
from rookery.platform.user_folders import Places


class Trust(Enum):
    YES = "trusted"
    NO = "the user said no"
    UNKNOWN = "the user was not asked"


def find_trust(
    options: Options,
    places: Places,
    keep: Callable[[str], None],
    require_model: Callable[[], None],
) -> Trust:
    """Find out whether the folder is trusted; a user at the terminal is asked first of all.
    `keep` takes text typed before the question, if it can be used. `require_model` raises if there
    is no model, which comes before the question."""
    store = TrustStore(places.trust_file)
    if options.trust:
        from rookery.app.project_tools import agree_to_servers, agree_to_tools

        agree_to_servers(options.workspace, only_new=True)
        with suppress(StorageError, ToolError):  # the run reports which are not offered
            agree_to_tools(options.workspace, first_only=True)
    if options.trust or store.trusts(options.workspace):
        return Trust.YES
    if options.interactive and not (options.yes and never_trusted(options.workspace)):
        from rookery.permissions.cli import ask_trust

        require_model()
        out = sys.stderr if options.once else sys.stdout
        has_prompt = options.prompt_text or options.words or options.prompt_file or options.resumes
        usable = options.front_end is FrontEnd.SCREEN or not has_prompt
        trusted = ask_trust(store, options.workspace, out, keep if usable else None)
        return Trust.YES if trusted else Trust.NO
    if store.problem:
        note(store.problem)
    return Trust.UNKNOWN


def may_act_anyway(options: Options, trust: Trust) -> bool:
    """Whether an untrusted folder may be changed in this run: with -y, or if a program drives us
    over the control stream. A user's "no" overrides every flag."""
    return trust is Trust.UNKNOWN and (options.yes or options.stdin_prompt_stream)


def trust_note(options: Options, trust: Trust, *, acts_anyway: bool) -> str:
    if options.trust and not options.interactive:
        return "--trust: the folder is trusted for this run."
    if trust is not Trust.UNKNOWN:
        return ""
    if acts_anyway:
        return "The folder is not trusted. -y allows changes and commands for this run."
    return (
        "The folder is not trusted, so it is read-only. To allow changes and commands, use "
        f"--trust or -y for one run, or trust it: {NAME} trust"
    )


def note(sentence: str) -> None:
    print(f"note: {harmless(sentence)}", file=sys.stderr)
