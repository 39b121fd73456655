"""Other agents that are installed here, run against the scripted model: `--peer codex=PROGRAM`.

An agent has tools of its own, so each gets the turns of the benchmark as shell commands. Nothing is
run unless it is asked for, and each run has a home of its own.
"""

import itertools
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from runs import Cost, Model, run_measured

from llm_server import Answer, call, say
from llm_server.chat_wire import CHAT
from llm_server.messages_wire import MESSAGES
from llm_server.responses_wire import RESPONSES

WIRES = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES}
PROMPT = "Do the work."


class Peer(Struct, frozen=True):
    """How one agent is started, and how a model calls its shell."""

    wire: str
    """The route of the model server that it asks."""
    shell: Callable[[str], Answer]
    command: Callable[[str, str], Sequence[str]]
    """The arguments, by the program and the server's address."""
    environment: Callable[[str, Path], Mapping[str, str]]


def _codex(program: str, url: str) -> Sequence[str]:
    provider = f'{{name="bench",base_url="{url}",wire_api="responses",env_key="BENCH_KEY"}}'
    settings = (f"model_providers.bench={provider}", "model_provider=bench", "model=bench")
    flags = [word for setting in settings for word in ("-c", setting)]
    run = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    return [program, *flags, *run, PROMPT]


def _claude(program: str, url: str) -> Sequence[str]:
    return [program, "-p", "--model", "bench", "--allowedTools", "Bash", "--", PROMPT]


def _rookery(program: str, url: str) -> Sequence[str]:
    return [program, "-p", "-y", "--provider", "openai", "-m", "bench", "--base-url", url, PROMPT]


PEERS: dict[str, Peer] = {
    "rookery": Peer(
        wire="chat",
        shell=lambda line: [call("execute_command", command=line)],
        command=_rookery,
        environment=lambda url, home: {},
    ),
    "codex": Peer(
        wire="responses",
        shell=lambda line: [call("exec_command", cmd=line)],
        command=_codex,
        environment=lambda url, home: {"CODEX_HOME": str(home), "BENCH_KEY": "none"},
    ),
    "claude": Peer(
        wire="messages",
        shell=lambda line: [call("Bash", command=line, description="A step of the work")],
        command=_claude,
        environment=lambda url, home: {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CONFIG_DIR": str(home),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    ),
}


def work(peer: Peer, turns: int) -> list[Answer]:
    """Shell commands that read, write and count in turn, then the end of the task."""
    return [*(peer.shell(_line(number)) for number in range(turns)), [say("It is done.")]]


def _line(number: int) -> str:
    nth = number // 3
    match number % 3:
        case 0:
            return f"sed -n {nth + 1},{nth + 40}p notes.txt"
        case 1:
            return f"echo {nth} >> log.txt; wc -l log.txt"
        case _:
            return f"sed -i 's/^count = {nth}$/count = {nth + 1}/' notes.txt"


class PeerRun(Struct, frozen=True):
    cost: Cost
    to_request: float
    turns: tuple[float, ...]


def run_peer(
    name: str,
    program: str,
    case: str,
    run: str,
    folder: Path,
    model: Model,
    files: Mapping[str, str],
) -> PeerRun:
    """One run in a new workspace. Raises `RuntimeError` with its output if it fails."""
    peer = PEERS[name]
    workspace, home = folder / "workspace", folder / "home"
    for each in (workspace, home):
        each.mkdir(parents=True)
    for path, text in files.items():
        (workspace / path).write_text(text, encoding="utf-8")
    url = model.url(f"{case}/{run}")
    before = dict(os.environ)
    os.environ.update({**peer.environment(url, home), "HOME": str(home)})
    try:
        began = time.monotonic()
        cost = run_measured(peer.command(program, url), cwd=workspace, home=home)
    finally:
        os.environ.clear()
        os.environ.update(before)
    arrivals: list[float] = model.seen(f"{case}/{run}")["arrivals"]
    if not arrivals:
        raise RuntimeError(f"{name} asked nothing of the model")
    turns = tuple(later - sooner for sooner, later in itertools.pairwise(arrivals))
    return PeerRun(cost, arrivals[0] - began, turns)
