"""`rookery sessions start`, `send`, `cancel` and others: start sessions and look after them."""

import sys
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, cast

import anyio.to_thread
import click

from rookery import NAME
from rookery.cli.exit_codes import Exit
from rookery.core.text.terminal_text import harmless, harmless_line
from rookery.errors import CommandRejected, SettingsError
from rookery.manager.cli.sessions_common import (
    ManagerClient,
    one_session,
    short,
    with_manager,
    words_of,
)
from rookery.manager.requests import (
    ArchiveSession,
    CancelSession,
    DiscardMail,
    EditQueued,
    ListSessions,
    MarkRead,
    RemoveSession,
    RenameSession,
    ResumeSession,
    RetryMail,
    RetrySession,
    SendWords,
    Started,
    StartSessions,
    StopAll,
    SwitchSession,
    TrustProject,
)
from rookery.manager.shown_rows import MailRow
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
@with_manager
async def start_command(
    client: ManagerClient,
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
        images=await _pictures(client, images),
        where="worktree" if apart else "local",
        versions=wanted,
        model=models[0] if len(models) == 1 else "",
        models=tuple(models) if len(models) > 1 else (),
        worktree_id=(await client.worktree(worktree_id)).id if worktree_id else "",
        auto_approve=client.settings.manager.auto_approve and not ask,
        **named,
    )
    await _see_to_trust(client)
    started = await client.do(request)
    client.tell(started, started.session_ids)
    if not client.as_json:
        waiting = [each for each in await client.sessions() if each.queued]
        for line in _told(started, {each.session_id for each in waiting}):
            print(line, file=sys.stderr, flush=True)
    return Exit.DONE if started.session_ids else Exit.FAILED


async def _see_to_trust(client: ManagerClient) -> None:
    """Whoever sits at a terminal can look and say yes; others are told how."""
    overview = (await client.do(ListSessions())).overview
    if overview.trusted or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    store = TrustStore(client.places.trust_file)
    if await anyio.to_thread.run_sync(ask_trust, store, client.folder, sys.stderr):
        await client.do(TrustProject(path=overview.project))  # which tells whoever looks on


async def _pictures(client: ManagerClient, files: Sequence[str]) -> tuple[str, ...]:
    images, problems = await load_pictures(files, str(client.folder))
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


@click.command("send")
@one_session
@click.argument("text")
@with_manager
async def send_command(client: ManagerClient, session: str, text: str) -> int:
    """Say something to a session, now or as soon as it listens. - reads standard input."""
    row = await client.session(session)
    request = SendWords(session_id=row.session_id, text=words_of(text))
    return await client.carry_out(request, f"Sent to {short(row.session_id)}.")


@click.command("cancel")
@one_session
@with_manager
async def cancel_command(client: ManagerClient, session: str) -> int:
    """Stop what a session does. It can be resumed."""
    row = await client.session(session)
    request = CancelSession(session_id=row.session_id)
    return await client.carry_out(request, f"Stopped {short(row.session_id)}.")


@click.command("resume")
@one_session
@click.argument("text", default="")
@with_manager
async def resume_command(client: ManagerClient, session: str, text: str) -> int:
    """Let a session go on that rests, with some words if you like."""
    row = await client.session(session)
    said = words_of(text) if text else ""
    request = ResumeSession(session_id=row.session_id, text=said)
    return await client.carry_out(request, f"Resumed {short(row.session_id)}.")


@click.command("retry")
@one_session
@with_manager
async def retry_command(client: ManagerClient, session: str) -> int:
    """Try again what a session has failed at."""
    row = await client.session(session)
    request = RetrySession(session_id=row.session_id)
    return await client.carry_out(request, f"Retried {short(row.session_id)}.")


@click.command("remove")
@one_session
@with_manager
async def remove_command(client: ManagerClient, session: str) -> int:
    """End a session and take it off the list. What was said stays in the history."""
    row = await client.session(session)
    request = RemoveSession(session_id=row.session_id)
    said = f"Removed {short(row.session_id)}. Its history: {NAME} show {short(row.session_id)}"
    return await client.carry_out(request, said)


@click.command("stop-all")
@with_manager
async def stop_all_command(client: ManagerClient) -> int:
    """End the processes of all sessions. What they were doing can be resumed."""
    return await client.carry_out(StopAll(), "All sessions are stopped.")


@click.command("trust")
@with_manager
async def trust_command(client: ManagerClient) -> int:
    """Trust the project, so that sessions can be started in it."""
    project = (await client.do(ListSessions())).overview.project
    return await client.carry_out(
        TrustProject(path=project), f"{harmless_line(project)} is trusted."
    )


@click.command("rename")
@one_session
@click.argument("label", default="")
@with_manager
async def rename_command(client: ManagerClient, session: str, label: str) -> int:
    """Call a session something else. Without a LABEL its own name is back."""
    row = await client.session(session)
    request = RenameSession(session_id=row.session_id, label=label)
    return await client.carry_out(request, f"Renamed {short(row.session_id)}.")


@click.command("archive")
@one_session
@click.option("--undo", is_flag=True, help="Put it back on the list.")
@with_manager
async def archive_command(client: ManagerClient, session: str, undo: bool) -> int:
    """Put a session away, so that it is no longer listed."""
    row = await client.session(session)
    request = ArchiveSession(session_id=row.session_id, archived=not undo)
    said = "is back on the list" if undo else "is put away"
    return await client.carry_out(request, f"{short(row.session_id)} {said}.")


@click.command("mark-read")
@one_session
@with_manager
async def mark_read_command(client: ManagerClient, session: str) -> int:
    """Note that you have seen what a session came to."""
    row = await client.session(session)
    request = MarkRead(session_id=row.session_id)
    return await client.carry_out(request, f"{short(row.session_id)} is read.")


@click.command("switch")
@one_session
@click.option("-M", "--mode", help="Go on in this mode.")
@click.option("-m", "--model", help="Go on with this model, as provider/model or plain.")
@click.option("--intent", help="Go on for this intent.")
@click.option("--auto/--ask", "auto_approve", default=None, help="Act unasked, or ask.")
@with_manager
async def switch_command(
    client: ManagerClient,
    session: str,
    mode: str | None,
    model: str | None,
    intent: str | None,
    auto_approve: bool | None,
) -> int:
    """Change how a session goes on from now."""
    if mode is model is intent is None and auto_approve is None:
        raise SettingsError("Say what to change: --mode, --model, --intent, --auto or --ask.")
    row = await client.session(session)
    request = SwitchSession(
        session_id=row.session_id, mode=mode, model=model, intent=intent, auto_approve=auto_approve
    )
    return await client.carry_out(request, f"Switched {short(row.session_id)}.")


class _MailGroup(click.Group):
    """Whoever names a session and no command wants the list."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names_none = bool(args) and args[0] not in self.commands and args[0][:1] != "-"
        return super().resolve_command(ctx, ["list", *args] if names_none else args)


@click.group("mail", cls=_MailGroup)
def mail_group() -> None:
    """Words on their way to a session that were not heard yet. With an ID they are printed."""


@mail_group.command("list")
@one_session
@with_manager
async def mail_list_command(client: ManagerClient, session: str) -> int:
    """Print the words that a session has not heard: on their way, or in its queue."""
    row = await client.session(session)
    unheard = await _unheard(client, row.session_id)
    lines = [*map(_mail, row.mail), *map(_queued, unheard)]
    told = {"mail": row.mail, "queue": unheard}
    client.tell(told, lines or ["Everything was heard."])
    return Exit.DONE


@mail_group.command("retry")
@one_session
@click.argument("number", type=int)
@with_manager
async def mail_retry_command(client: ManagerClient, session: str, number: int) -> int:
    """Send words again that did not arrive."""
    row = await client.session(session)
    request = RetryMail(session_id=row.session_id, number=number)
    return await client.carry_out(request, "It is sent again.")


@mail_group.command("discard")
@one_session
@click.argument("number", type=int)
@with_manager
async def mail_discard_command(client: ManagerClient, session: str, number: int) -> int:
    """Take words back that did not arrive."""
    row = await client.session(session)
    request = DiscardMail(session_id=row.session_id, number=number)
    return await client.carry_out(request, "It is taken back.")


@mail_group.command("edit")
@one_session
@click.argument("message", metavar="MESSAGE_ID")
@click.argument("text", required=False)
@with_manager
async def mail_edit_command(
    client: ManagerClient, session: str, message: str, text: str | None
) -> int:
    """Change words that a session has in its queue; without TEXT they are taken back."""
    row = await client.session(session)
    said = None if text is None else words_of(text)
    request = EditQueued(session_id=row.session_id, message_id=message, text=said)
    return await client.carry_out(request, "Changed." if text else "It is taken back.")


async def _unheard(client: ManagerClient, session_id: str) -> Sequence[Mapping[str, Any]]:
    """What has arrived and waits until the model is told."""
    news = cast(AsyncGenerator[Any, None], client.manager.follow_session(session_id, tail=1))
    with suppress(CommandRejected):  # it has not begun, so nothing has arrived
        async with aclosing(news):
            async for each in news:
                if (queue := each["change"].get("parts", {}).get("queue")) is not None:
                    return tuple(queue)
    return ()


def _queued(said: Mapping[str, Any]) -> str:
    return f"{harmless_line(said['message_id'])}  not heard yet  {harmless_line(said['text'])}"


def _mail(row: MailRow) -> str:
    problem = f"  ({harmless_line(row.problem)})" if row.problem else ""
    return f"{row.number}  {row.state}  {harmless_line(row.text)}{problem}"
