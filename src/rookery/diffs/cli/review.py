"""`rookery review`: a model reviews a change and reports findings with file and line."""

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from anyio.abc import TaskGroup
from msgspec.structs import replace

from rookery import NAME
from rookery.app.briefing import workspace_files
from rookery.cli.command_line import folder_option
from rookery.cli.reports import Exit, RunReport
from rookery.cli.run import AttendedTask, run_client
from rookery.cli.run_options import Run
from rookery.core.asks import AskKind
from rookery.core.commands import OpenTask
from rookery.core.facts import Asked
from rookery.core.modes import DEFAULT
from rookery.core.queries import AskAbout
from rookery.core.settings import Settings
from rookery.core.text.terminal_text import Paint, counted
from rookery.diffs.cli.model_session import (
    ModelFlags,
    ProgressReport,
    QuietReport,
    hides,
    model_options,
    model_run,
    settings_of,
)
from rookery.diffs.findings import (
    SEVERITIES,
    WIDTH,
    ReviewResult,
    Severity,
    SubmitReview,
    as_json,
    as_sarif,
    as_text,
    place,
)
from rookery.diffs.git_diffs import DiffRepository, NamedDiff, pull_request, read_patch
from rookery.diffs.review_parts import NOT_SUBMITTED, ShownFiles, plan_review, room_in
from rookery.diffs.unified import read_diff
from rookery.errors import SettingsError
from rookery.platform.user_folders import Places, find_places
from rookery.protocol.attend import Display, Fate, Responder, Response, RunEnd, Say
from rookery.protocol.codec import Host

STANDARD_INPUT = "-"
NEVER = "never"
TOOLS = ("read_file", "list_files", "search_files", "attempt_completion")
SMALL_WINDOW = 8192
"""Tokens, for finding out whether there is anything to review."""
NO_REVIEW = f"The model did not submit findings for all parts. To see what it wrote: {NAME} show"


@click.command()
@click.argument("words", nargs=-1, metavar="[RANGE|COMMIT|-] [PATH]...")
@click.option("--staged", is_flag=True, help="Review what is staged.")
@click.option("--base", help="Review the commits since this branch, as a pull request does.")
@click.option("--patch", help="Review a patch or diff in a file; - for standard input.")
@click.option("--pr", type=click.IntRange(min=1), help="Review a pull request; needs gh.")
@click.option("--json", "form", flag_value="json", help="Print the result as JSON.")
@click.option("--sarif", "form", flag_value="sarif", help="Print the result as SARIF 2.1.0.")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write the result to this file: .json, .sarif, or text. Can be repeated.",
)
@click.option(
    "--fail-on",
    type=click.Choice([*SEVERITIES, NEVER]),
    default="error",
    show_default=True,
    help=f"Exit with {Exit.FINDINGS:d} if a finding is at least this severe.",
)
@folder_option("The folder to review.")
@model_options
def command(
    words: tuple[str, ...],
    staged: bool,
    base: str | None,
    patch: str | None,
    pr: int | None,
    form: str | None,
    outputs: tuple[Path, ...],
    fail_on: str,
    workspace: Path,
    **model: Any,
) -> int:
    """Review uncommitted changes, a range (main..topic), a commit or a patch.

    A review only reads: it changes no files and runs no commands.
    """
    places, flags = find_places(os.environ), ModelFlags(**model)
    change = _change(words, staged=staged, base=base, patch=patch, pr=pr, folder=workspace)
    review = ChangeReview(change, workspace, places)
    code = review.run(flags, quiet=form is not None)
    width = shutil.get_terminal_size((WIDTH, 0)).columns if sys.stdout.isatty() else WIDTH
    print(_rendered(review.result, form or "", Paint(review.coloured), min(width, WIDTH)))
    for path in outputs:
        _write(path, _rendered(review.result, path.suffix.removeprefix("."), Paint(False)))
    if code == Exit.DONE and fail_on != NEVER and review.result.at_least(_severity(fail_on)):
        return Exit.FINDINGS
    return code


def _severity(name: str) -> Severity:
    return next(each for each in SEVERITIES if each == name)


def _change(
    words: Sequence[str],
    *,
    staged: bool,
    base: str | None,
    patch: str | None,
    pr: int | None,
    folder: Path,
) -> NamedDiff:
    """Get the diff that the command line names. Raises `SettingsError` if it names several."""
    if words[:1] == (STANDARD_INPUT,) and patch is None:
        words, patch = words[1:], STANDARD_INPUT
    if sum([staged, base is not None, patch is not None, pr is not None]) > 1:
        raise SettingsError("Give only one of --staged, --base, --patch and --pr.")
    if patch is not None or pr is not None:
        if words:
            raise SettingsError("--patch and --pr take no other arguments.")
        return _patch(patch) if patch is not None else pull_request(pr or 0, folder)
    return _from_git(DiffRepository(folder), list(words), staged, base)


def _patch(name: str) -> NamedDiff:
    if name == STANDARD_INPUT:
        return read_patch("standard input", sys.stdin.buffer)
    try:
        with open(name, "rb") as file:
            return read_patch(name, file)
    except OSError as error:
        raise SettingsError(f"Cannot read {name}: {error.strerror}.") from error


def _from_git(git: DiffRepository, words: list[str], staged: bool, base: str | None) -> NamedDiff:
    if git.below:
        print(f"note: Only changes below {git.below} are reviewed.", file=sys.stderr)
    if staged:
        return git.staged(words)
    if base is not None:
        return git.since(base, paths=words)
    first = words[0] if words else ""
    if ".." in first and not os.path.exists(first):
        old, _, new = first.partition("..")
        return git.since(old or "HEAD", new.removeprefix(".") or "HEAD", words[1:])
    if first and git.names_commit(first):
        return git.commit(first, words[1:])
    if missing := [word for word in words if not os.path.lexists(word)]:
        raise SettingsError(f"No such commit, branch or file: {missing[0]}.")
    return git.uncommitted(words)


class ChangeReview:
    """One review, from the diff to its result."""

    def __init__(self, change: NamedDiff, workspace: Path, places: Places) -> None:
        self._change = change
        self._workspace = workspace
        self._places = places
        self._files = read_diff(change.data)
        self.coloured = False
        self.result = ReviewResult(title=change.title, session_id="")

    def run(self, flags: ModelFlags, *, quiet: bool) -> int:
        """Review the change; returns the exit code without regard to the findings."""
        settings = settings_of(flags, self._places)
        self.coloured = settings.colours(sys.stdout, os.environ)
        if not (plan := self._plan(settings, SMALL_WINDOW)).texts:
            self.result = replace(self.result, left_out=plan.left_out)
            return Exit.DONE
        submit = SubmitReview()
        run = model_run(
            flags, settings, self._workspace, self._places, text="", only=TOOLS, added=[submit]
        )
        report = QuietReport() if quiet else ProgressReport(run, self._doing)
        client = ReviewTask(run, report, submit, lambda window: self._plan(settings, window))
        code = run_client(run, client)
        self.result = _result(self.result, client, submit)
        return code

    @property
    def _doing(self) -> str:
        return f"Review of the {self._change.title}: {counted(len(self._files), 'file')}"

    def _plan(self, settings: Settings, window: int) -> ShownFiles:
        files = workspace_files(self._workspace, self._places, settings)
        return plan_review(
            self._change.title,
            self._files,
            room=room_in(window),
            in_checkout=self._change.in_checkout,
            hidden=hides(files),
        )


class ReviewTask(AttendedTask):
    """A client that sends the diff part by part and collects the findings."""

    def __init__(
        self,
        run: Run,
        report: RunReport,
        submit: SubmitReview,
        plan_for: Callable[[int], ShownFiles],
    ) -> None:
        super().__init__(run, report)
        self._submit = submit
        self._plan_for = plan_for
        self.plan = ShownFiles()
        self.end = RunEnd(Fate.LEFT, code="task_aborted")
        self.task_id = run.task_id
        self._unsubmitted = False

    async def run(self, host: Host) -> RunEnd:
        self.plan = self._plan_for((await host.query(AskAbout())).window)
        assert isinstance(self._run.first, OpenTask)
        first = replace(self._run.first, text=self.plan.texts[0])
        self._run = replace(self._run, first=first)
        end = await super().run(host)
        failed = self._unsubmitted and end.fate is Fate.COMPLETED and not end.code
        return RunEnd(Fate.FAILED, NO_REVIEW, "task_failed") if failed else end

    def report_end(self, end: RunEnd) -> None:
        self.end = end
        super().report_end(end)

    async def _responder(self, host: Host, group: TaskGroup) -> tuple[Responder, Display]:
        usual, watching = await super()._responder(host, group)
        waiting = list(self.plan.texts[1:])
        wanted, reminded = 1, False

        async def respond(asked: Asked) -> Response:
            nonlocal wanted, reminded
            if asked.ask is not AskKind.COMPLETION_RESULT:
                return await usual(asked)
            submitted = self._submit.times >= wanted
            if not submitted and not reminded:
                reminded = True
                return Say("message", NOT_SUBMITTED)
            self._unsubmitted = self._unsubmitted or not submitted
            if waiting:
                wanted, reminded = self._submit.times + 1, False
                return Say("message", waiting.pop(0))
            # a continued session is for repairing what was found
            return Say("yes", by="policy", mode=DEFAULT)

        return respond, watching


def _result(empty: ReviewResult, client: ReviewTask, submit: SubmitReview) -> ReviewResult:
    placed = place(submit.findings, client.plan.files)
    complete = client.end.fate is Fate.COMPLETED and not client.end.code
    return replace(
        empty,
        session_id=client.task_id,
        findings=placed.findings,
        summary=" ".join(submit.summaries),
        files=client.plan.files,
        left_out=client.plan.left_out,
        moved=placed.moved,
        dropped=placed.dropped,
        complete=complete,
        reason="" if complete else client.end.reason or "It was stopped.",
    )


def _rendered(result: ReviewResult, form: str, paint: Paint, width: int = WIDTH) -> str:
    match form:
        case "json":
            return as_json(result)
        case "sarif":
            return as_sarif(result)
        case _ if not (result.files or result.left_out):
            return f"Nothing to review: there are no {result.title}."
        case _:
            return as_text(result, paint, width)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(f"{text}\n", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise SettingsError(f"Cannot write {path}: {error.strerror}.") from error
