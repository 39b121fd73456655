"""`rookery sessions start`: begin a session, or several answers to the same prompt."""

import sys
from collections.abc import Collection, Iterator, Sequence

import anyio.to_thread
import click

from rookery import NAME
from rookery.cli.exit_codes import Exit
from rookery.core.text.terminal_text import harmless
from rookery.errors import SettingsError
from rookery.manager.cli.sessions_common import Desk, at_the_desk, short, words_of
from rookery.manager.requests import ListSessions, Started, StartSessions, TrustProject
from rookery.permissions.cli.trust_command import ask_trust
from rookery.permissions.trust import TrustStore
from rookery.protocol.client.picture_files import load_pictures

MOST_VERSIONS = 4


@click.command("start")
@click.argument("prompt")
@click.option("--worktree", is_flag=True, help="Work in a worktree with a branch of its own.")
@click.option(
    "--versions",
    type=click.IntRange(1, MOST_VERSIONS),
    help="So many answers to the same prompt, each in a worktree.",
)
@click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    help="The model, as provider/model or plain; of several each version gets one.",
)
@click.option("-M", "--mode", default="", help="The mode to start in.")
@click.option("--base", default="", help="What the new branch begins at.")
@click.option("--branch", default="", help="The branch to work on, there already or new.")
@click.option("--in", "worktree_id", help="The worktree of this session, branch or id.")
@click.option("--label", default="", help="What the session is called.")
@click.option("--image", "images", multiple=True, metavar="FILE", help="A picture to look at.")
@click.option("--ask", is_flag=True, help="Ask before every change.")
@click.option("--intent", default="", help="The intent to work for, such as INT-001.")
@at_the_desk
async def start_command(
    desk: Desk,
    prompt: str,
    worktree: bool,
    versions: int | None,
    models: Sequence[str],
    worktree_id: str | None,
    images: Sequence[str],
    ask: bool,
    **named: str,
) -> int:
    """Start a session, which runs on by itself. The prompt - is read from standard input."""
    wanted = versions or max(1, len(models))
    if len(models) > 1 and len(models) != wanted:
        raise SettingsError(f"There are {len(models)} models for {wanted} versions. Name as many.")
    apart = worktree or wanted > 1 or named["branch"] or named["base"] or worktree_id
    request = StartSessions(
        prompt=words_of(prompt),
        images=await _pictures(desk, images),
        where="worktree" if apart else "local",
        versions=wanted,
        model=models[0] if len(models) == 1 else "",
        models=tuple(models) if len(models) > 1 else (),
        worktree_id=(await desk.worktree(worktree_id)).id if worktree_id else "",
        auto_approve=desk.settings.manager.auto_approve and not ask,
        **named,
    )
    await _see_to_trust(desk)
    started = await desk.do(request)
    desk.tell(started, started.session_ids)
    if not desk.as_json:
        waiting = [each for each in await desk.sessions() if each.queued]
        for line in _told(started, {each.session_id for each in waiting}):
            print(line, file=sys.stderr, flush=True)
    return Exit.DONE if started.session_ids else Exit.FAILED


async def _see_to_trust(desk: Desk) -> None:
    """Whoever sits at a terminal can look and say yes; others are told how."""
    overview = (await desk.do(ListSessions())).overview
    if overview.trusted or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    store = TrustStore(desk.places.trust_file)
    if await anyio.to_thread.run_sync(ask_trust, store, desk.folder, sys.stderr):
        await desk.do(TrustProject(path=overview.project))  # which tells whoever looks on


async def _pictures(desk: Desk, files: Sequence[str]) -> tuple[str, ...]:
    images, problems = await load_pictures(files, str(desk.folder))
    for each in problems:
        raise SettingsError(f"{each['path']} cannot be sent: {each['error']}")
    return tuple(f"data:{each.media_type};base64,{each.data}" for each in images)


def _told(started: Started, waiting: Collection[str]) -> Iterator[str]:
    """What should be known besides the ids, which a script takes from standard output."""
    for session_id in started.session_ids:
        if session_id in waiting:
            yield (
                f"{short(session_id)} waits for its turn: as many sessions work already as "
                "manager.running_limit allows."
            )
    yield from map(harmless, (*started.notes, *started.failed))
    if started.session_ids:
        yield f"See how it goes: {NAME} sessions follow {short(started.session_ids[0])}"
