"""`rookery export`: a session and its sub-tasks as one document, or as a bundle to share.

Documents are made in pieces, and the journal is read anew for each, so that a session of any length
takes little memory. What cannot be read is left out, and the document says so.
"""

import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final, Literal, TypeAlias, get_args

import click
import msgspec
from msgspec.structs import replace

from rookery import NAME, VERSION
from rookery.core.facts import Event, Noted, TaskOpened
from rookery.core.folds.streamed_rows import outline, streamed_rows
from rookery.core.stored_tasks import TaskSummary
from rookery.core.text.characters import whole
from rookery.core.text.scrubber import Scrubber
from rookery.core.text.terminal_text import counted, harmless_line
from rookery.errors import SettingsError, StorageError
from rookery.manager.dependencies import Form
from rookery.platform.disk import put, reason
from rookery.platform.user_folders import find_places
from rookery.protocol.codec import event_from_json, event_to_json
from rookery.protocol.transcript_page import as_damage, as_heading, as_html, as_page
from rookery.protocol.transcript_text import TranscriptPassage, as_markdown, passages
from rookery.storage.cli.session_commands import harmless_json, header
from rookery.storage.cli.session_listing import chosen_session, family_of, title, workspace_option
from rookery.storage.sessions import Journals, TaskStore

DocumentForm: TypeAlias = Form | Literal["jsonl"]
BUNDLE: Final = "bundle"
LINES_FORMAT = 1
UNSEARCHABLE = "An event was left out: it cannot be read without the text that was replaced in it."


@click.command()
@click.argument("session", required=False)
@workspace_option
@click.option(
    "--format",
    "form",
    type=click.Choice([*get_args(Form), "jsonl", BUNDLE], case_sensitive=False),
    default="markdown",
    help="A document, all events, or a zip file to share, without known secrets.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def export_command(
    session: str | None,
    workspace: Path,
    form: DocumentForm | Literal["bundle"],
    output: Path | None,
    force: bool,
) -> int:
    """Write a session and its sub-tasks as one document; without a session, the last one of
    this folder. It contains everything the agent read: check it before you share it."""
    places = find_places(os.environ)
    store = TaskStore(places)
    if form == BUNDLE and output is None:
        name = f"{NAME} export --format bundle -o FILE.zip"
        raise SettingsError(f"A bundle is a zip file; give its name: {name}")
    task_id = chosen_session(store, session, workspace, "export")
    if form == BUNDLE:
        assert output is not None
        from rookery.storage.cli.share_bundle import ShareBundle

        bundle = ShareBundle(store, task_id, places)
        write_export(output, bundle.pieces(), force=force)
        notes = [*bundle.document.damage, *bundle.report()]
    else:
        document = SessionDocument(store, task_id)
        _write_document(document, form, output, force=force)
        notes = list(document.damage)
    if output is not None:
        notes.insert(0, f"Wrote {output}.")
    for note in notes:
        print(harmless_line(note), file=sys.stderr)
    return 0


def _write_document(
    document: "SessionDocument", form: DocumentForm, output: Path | None, *, force: bool
) -> None:
    pieces = map(whole, document.pieces(form))
    if output is not None:
        write_export(output, (piece.encode() for piece in pieces), force=force)
        return
    seen = form == "jsonl" and sys.stdout.isatty()
    for piece in pieces:
        sys.stdout.write(harmless_json(piece[:-1]) + "\n" if seen else piece)


def write_export(file: Path, pieces: Iterable[bytes], *, force: bool) -> None:
    """Readable only by the user, because it may contain secrets."""

    def check() -> None:
        if os.path.lexists(file):
            _check_replaceable(file, force=force)

    try:
        check()
        put(file, pieces, check=check)
    except OSError as error:
        raise SettingsError(f"{file} cannot be written: {reason(error)}.") from error


def _check_replaceable(file: Path, *, force: bool) -> None:
    """Links and special files are never replaced."""
    if not force:
        raise SettingsError(f"{file} already exists; add --force to replace it.")
    if not stat.S_ISREG(file.lstat().st_mode):
        raise SettingsError(f"{file} is not a regular file and is not replaced; use another name.")


class SessionDocument:
    """A session and its sub-tasks, to be written in one form. With a scrubber, no event leaves
    it before secrets were replaced."""

    def __init__(self, store: TaskStore, task_id: str, scrub: Scrubber | None = None) -> None:
        self._store = store
        self._scrub = scrub
        self._copies: dict[str, IO[bytes]] = {}
        self._files: list[IO[bytes]] = []
        self.family = family_of(store.list(), task_id)
        self._problems = {one.id: self._problem(one.id) for _, one in self.family}
        self._titles = {one.id: self._title_of(one) for _, one in self.family}
        if not any(self._stored(task_id)):
            raise StorageError(
                f"Nothing of session {task_id} can be read: its journal is empty or damaged from "
                "its first line. Nothing was written."
            )

    def close(self) -> None:
        """Remove the copies of events."""
        self._copies.clear()
        for file in self._files:
            file.close()

    @property
    def damage(self) -> list[str]:
        """What could not be read, as sentences."""
        return [problem for problem in self._problems.values() if problem]

    def pieces(self, form: DocumentForm) -> Iterator[str]:
        match form:
            case "markdown":
                return self._markdown()
            case "json":
                return self._json()
            case "jsonl":
                return self._lines()
            case "html":
                return as_page(self._titles[self.family[0][1].id], self._html())

    def _problem(self, task_id: str) -> str:
        try:
            lost = Journals(self._store.folder).lost_lines(task_id)
        except StorageError as error:
            return str(error)
        if not lost:
            return ""
        are = "is" if lost == 1 else "are"
        return (
            f"The journal of session {task_id} is damaged: {counted(lost, 'event')} {are} not "
            "included."
        )

    def _events(self, task_id: str) -> Iterator[Event]:
        """The events, without secrets. They are searched once and then read from a copy, because
        a search takes much longer than everything else."""
        if self._scrub is None:
            yield from self._stored(task_id)
            return
        if copy := self._copies.get(task_id):
            copy.seek(0)
            yield from map(event_from_json, copy)
            return
        copy = TemporaryFile()  # noqa: SIM115 (later readers need it; `close` closes it)
        self._files.append(copy)
        for event in map(self._clean, self._stored(task_id)):
            copy.write(event_to_json(event) + b"\n")
            yield event
        self._copies[task_id] = copy

    def _stored(self, task_id: str) -> Iterator[Event]:
        """The readable events. A line that this version cannot read ends them."""
        try:
            yield from self._store.read(task_id)
        except StorageError as error:
            self._problems[task_id] = f"Session {task_id} is not complete here: {error}"

    def _clean(self, event: Event) -> Event:
        if self._scrub is None:
            return event
        try:
            return event_from_json(msgspec.json.encode(self._scrub.value(_json_of(event))))
        except ValueError:
            return replace(event, fact=Noted(text=UNSEARCHABLE))

    def name(self, task_id: str | None) -> Any:
        """The id of a session, which its user may have chosen."""
        return self._scrub.value(task_id, "id") if self._scrub else task_id

    def _said(self, text: str) -> str:
        return self._scrub.text(text) if self._scrub else text

    def _title_of(self, one: TaskSummary) -> str:
        """The title, from the opening: the index has only its beginning."""
        opened = next(map(self._clean, self._stored(one.id)), None)
        if opened and isinstance(opened.fact, TaskOpened):
            return title(opened.fact.title or opened.fact.text)
        return title(self._said(one.title))

    def _heading(self, one: TaskSummary, depth: int) -> str:
        return self._titles[one.id] if depth == 0 else f"Sub-task: {self._titles[one.id]}"

    def _passages(self, task_id: str, counting: tuple[range, ...]) -> Iterator[TranscriptPassage]:
        first = True
        for step in streamed_rows(self._events(task_id), counting):
            yield from passages(step.rows, step.results, first=first)
            first = first and not step.rows

    def _markdown(self) -> Iterator[str]:
        for depth, one in self.family:
            known = outline(self._stored(one.id))
            yield "---\n\n" if depth else ""
            yield f"# {self._heading(one, depth)}\n\n"
            yield f"*{self._said(header(one, known.model))}*\n\n"
            for block in as_markdown(self._passages(one.id, known.counting)):
                yield f"{block}\n\n"
            if problem := self._problems[one.id]:
                yield f"**Damaged:** {self._said(problem)}\n\n"

    def _html(self) -> Iterator[str]:
        for depth, one in self.family:
            known = outline(self._stored(one.id))
            about = self._said(header(one, known.model))
            yield as_heading(self._heading(one, depth), about, level=1 if depth == 0 else 2)
            yield from as_html(self._passages(one.id, known.counting))
            if problem := self._problems[one.id]:
                yield as_damage(self._said(problem))

    def _json(self) -> Iterator[str]:
        yield f'{{"tool": {json.dumps(NAME)}, "sessions": ['
        for number, (_, one) in enumerate(self.family):
            about = json.dumps(self._about(one))
            yield f'{", " if number else ""}{about[:-1]}, "facts": ['
            for place, event in enumerate(self._events(one.id)):
                yield f"{', ' if place else ''}{json.dumps(_json_of(event))}"
            yield f'], "damage": {json.dumps(self._problems[one.id])}}}'
        yield "]}\n"

    def _lines(self) -> Iterator[str]:
        """One object per line; docs/sessions.md describes them."""
        yield _line(type="export", format=LINES_FORMAT, tool=NAME, version=VERSION)
        for _, one in self.family:
            yield _line(type="session", **self._about(one))
            head = f'{{"type":"event","session":{json.dumps(self.name(one.id))},"event":'
            for event in self._events(one.id):
                yield f"{head}{event_to_json(event).decode()}}}\n"
            if problem := self._problems[one.id]:
                yield _line(type="damage", session=self.name(one.id), text=self._said(problem))

    def _about(self, one: TaskSummary) -> dict[str, Any]:
        return {
            "id": self.name(one.id),
            "task": self._titles[one.id],
            "workspace": self._said(one.workspace),
            "parent": self.name(one.parent),
            "mode": self._said(one.mode),
            "status": one.status,
            "created": one.created,
            "updated": one.updated,
            "tokensIn": one.tokens_in,
            "tokensOut": one.tokens_out,
            "cost": one.cost,
        }


def _json_of(event: Event) -> Any:
    return json.loads(event_to_json(event))


def _line(**fields: Any) -> str:
    return whole(msgspec.json.encode(fields).decode()) + "\n"
