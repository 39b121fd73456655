"""`rookery intents close`: what proves that an intent is done is run, and asked about."""

import sys
from collections.abc import Sequence

import click
from msgspec import Struct

from rookery import NAME
from rookery.core.text.terminal_text import cells_of, harmless_line
from rookery.errors import SettingsError
from rookery.governance.cli.intents_changes import (
    Changing,
    NotPossible,
    PlannedChange,
    moved,
    possible_move,
    told,
)
from rookery.governance.cli.intents_common import (
    FINDINGS,
    CommonOptions,
    GovernedFolder,
    asked,
    at_a_terminal,
    common,
    counted,
    now,
    open_folder,
    stamp,
)
from rookery.governance.criteria import CheckResult, check_criterion, criterion_id
from rookery.governance.intents.intent import Criterion, Intent, IntentFile, LastVerification
from rookery.governance.intents.intent_edits import SetVerification, edits_for

WIDTH = 60


class Numbered(Struct, frozen=True, kw_only=True):
    """A criterion, and its place, from 1."""

    number: int
    criterion: Criterion

    @property
    def id(self) -> str:
        return criterion_id(self.number, self.criterion)

    def is_called(self, said: str) -> bool:
        """By its id, or by its place with or without the letter."""
        return said.lower() in (self.id.lower(), f"a{self.number}", str(self.number))


class Checked(Struct, frozen=True, kw_only=True):
    numbered: Numbered
    result: CheckResult
    trace_id: str


@click.command("close")
@click.argument("intent_id", metavar="ID")
@click.option("--abandon", is_flag=True, help="Abandon it instead of completing it.")
@click.option("--force", is_flag=True, help="Close it without checks; needs --reason.")
@click.option("--reason", default="", help="The reason; it is recorded.")
@click.option(
    "--met",
    multiple=True,
    metavar="ID",
    help="Confirm a criterion that no command can check, such as A2. Repeatable.",
)
@common
def close_command(
    options: CommonOptions,
    intent_id: str,
    abandon: bool,
    force: bool,
    reason: str,
    met: Sequence[str],
) -> int:
    """Complete an intent. Its acceptance criteria are checked first; each command is shown
    before it runs."""
    governed = open_folder(options)
    if force and not reason.strip():
        raise SettingsError("--force needs --reason.")
    if abandon:
        return told(options, moved(governed, "abandon", governed.intent(intent_id), reason))
    intent = governed.sound_intent(intent_id)
    possible_move("close", intent, governed.usable)
    if force:
        return told(options, moved(governed, "close", intent, f"forced: {reason}"))
    return _Closing(governed, options, intent, reason, met).close()


class _Closing:
    def __init__(
        self,
        governed: GovernedFolder,
        options: CommonOptions,
        intent: Intent,
        reason: str,
        met: Sequence[str],
    ) -> None:
        self._governed = governed
        self._options = options
        self._intent = intent
        self._reason = reason
        self._changing = Changing(governed)
        all_of_them = [
            Numbered(number=number, criterion=each)
            for number, each in enumerate(intent.acceptance_criteria, start=1)
        ]
        self._checks = [each for each in all_of_them if each.criterion.verify]
        self._manual = [each for each in all_of_them if not each.criterion.verify]
        self._met = frozenset(self._called(each).id for each in met)

    def _called(self, said: str) -> Numbered:
        found = next((each for each in self._manual if each.is_called(said)), None)
        if found is None:
            known = ", ".join(each.id for each in self._manual)
            ones = f"They are: {known}." if known else "A command checks each of them."
            raise SettingsError(f"{said} is not a criterion that a person confirms. {ones}")
        return found

    def close(self) -> int:
        self._insist_on_somebody()
        self._insist_on_trust()
        checked = self._checked()
        failed = [each for each in checked if not each.result.ok]
        unmet = [] if failed else [each for each in self._manual if not self._is_met(each)]
        if failed or unmet:
            return self._left_open(checked, failed, unmet)
        held = [each.numbered.id for each in checked] + [each.id for each in self._manual]
        made = self._changing.change(
            "close", lambda file: self._plan(file, checked, held), reason=self._reason
        )
        tasks = f" {counted(made.tasks, 'running task')} will be notified." if made.tasks else ""
        self._options.say(f"{made.after.id} {made.after.status}.{tasks}")
        self._tell(str(made.after.status), checked, unmet)
        return 0

    @property
    def _attended(self) -> bool:
        """Whether somebody can be asked: not in the middle of a document for a program."""
        return at_a_terminal() and not self._options.as_json

    def _insist_on_somebody(self) -> None:
        """Before anything is run that would have been in vain."""
        left = [each.id for each in self._manual if each.id not in self._met]
        if left and not self._attended:
            spelled = " ".join(f"--met {each}" for each in left)
            raise NotPossible(
                f"{self._intent.id} stays {self._intent.status}: not interactive, and "
                f"criterion {', '.join(left)} needs a person. Confirm it with "
                f"{spelled}, or give --force --reason."
            )

    def _insist_on_trust(self) -> None:
        if not self._checks or self._governed.trusted:
            return
        commands = [
            f"  {harmless_line(each.criterion.verify.command)}"
            for each in self._checks
            if each.criterion.verify
        ]
        if not self._attended:
            raise NotPossible(
                f"{self._intent.id} stays {self._intent.status}: its checks come from a folder "
                f"that is not trusted, so none was run. Trust it with: {NAME} trust"
            )
        print("This folder is not trusted, and closing runs its checks:", *commands, sep="\n")
        if not _agreed("run it? [y/N] "):
            raise NotPossible(f"{self._intent.id} stays {self._intent.status}: nothing was run.")

    def _checked(self) -> list[Checked]:
        import anyio

        if not self._checks:
            return []
        self._options.say(f"running {counted(len(self._checks), 'check')}")
        return anyio.run(self._run_checks)

    async def _run_checks(self) -> list[Checked]:

        from rookery.app.command_parts import check_shell

        done: list[Checked] = []
        governed = self._governed
        workspace = governed.layout.workspace
        with check_shell(governed.settings, workspace, governed.places) as shell:
            for place, each in enumerate(self._checks, start=1):
                verify = each.criterion.verify
                assert verify is not None
                head = f"  [{place}/{len(self._checks)}] {harmless_line(verify.command)} "
                self._begin(head)
                result = await check_criterion(verify, self._governed.layout, shell)
                self._end(head, result)
                trace_id = self._changing.note_check(
                    self._intent, each.id, verify.command, result.exit_code, ok=result.ok
                )
                done.append(Checked(numbered=each, result=result, trace_id=trace_id))
        return done

    def _begin(self, head: str) -> None:
        if not (self._options.quiet or self._options.as_json):
            print(head, end="", flush=True)

    def _end(self, head: str, result: CheckResult) -> None:
        paint = self._options.paint
        word = paint.green("ok") if result.ok else paint.red(_how(result))
        dots = "." * max(3, WIDTH - cells_of(head))
        self._options.say(f"{dots} {word} ({result.seconds:.1f} s)")
        if not result.ok:
            self._options.say(*(f"    {harmless_line(line)}" for line in result.tail))

    def _is_met(self, numbered: Numbered) -> bool:
        if numbered.id in self._met:
            return True
        said = harmless_line(numbered.criterion.text)
        return _agreed(f'criterion {numbered.id} needs a human: "{said}"  met? [y/N] ')

    def _left_open(
        self, checked: Sequence[Checked], failed: Sequence[Checked], unmet: Sequence[Numbered]
    ) -> int:
        if checked:
            held = [each.numbered.id for each in checked if each.result.ok]
            verification = self._verification(checked, held, ok=not failed)
            self._changing.change("verify", lambda file: self._noted(file, verification))
        what = (
            f"{counted(len(failed), 'check')} failed"
            if failed
            else f"not met: criterion {', '.join(each.id for each in unmet)}"
        )
        print(f"{self._intent.id} stays {self._intent.status}: {what}.", file=sys.stderr)
        self._tell(str(self._intent.status), checked, unmet)
        return FINDINGS

    def _plan(
        self, file: IntentFile, checked: Sequence[Checked], held: Sequence[str]
    ) -> PlannedChange:
        there = self._unchanged(file)
        step = possible_move("close", there, file)
        edits = edits_for(step, there, at=stamp(now()), by=self._changing.by, reason=self._reason)
        proof = self._verification(checked, held, ok=True)
        told_too = {"checks": len(checked), "met_by_person": [each.id for each in self._manual]}
        return PlannedChange(
            intent_id=there.id,
            edits=(*edits, *([SetVerification(proof)] if held else [])),
            more=told_too,
        )

    def _noted(self, file: IntentFile, verification: LastVerification) -> PlannedChange:
        there = self._unchanged(file)
        return PlannedChange(
            intent_id=there.id, edits=(SetVerification(verification),), more={"ok": verification.ok}
        )

    def _unchanged(self, file: IntentFile) -> Intent:
        """What was checked is what is closed: whoever edits the file meanwhile has the last
        word."""
        if file is not self._governed.file:
            raise NotPossible(
                f"The intent file changed while {self._intent.id} was being closed, "
                "so it was not closed. Check the file, then close it again."
            )
        return self._intent

    def _verification(
        self, checked: Sequence[Checked], held: Sequence[str], *, ok: bool
    ) -> LastVerification:
        last = checked[-1].trace_id if checked else ""
        return LastVerification(at=stamp(now()), ok=ok, criteria=tuple(held), trace_id=last)

    def _tell(self, status: str, checked: Sequence[Checked], unmet: Sequence[Numbered]) -> None:
        not_met = {each.id for each in unmet}
        self._options.tell(
            {
                "id": self._intent.id,
                "status": status,
                "checks": [_as_json(each) for each in checked],
                "manual": [
                    {
                        "number": each.number,
                        "id": each.id,
                        "text": each.criterion.text,
                        "met": status == "COMPLETED" or each.id in self._met - not_met,
                    }
                    for each in self._manual
                ],
            }
        )


def _agreed(question: str) -> bool:
    return asked(question).lower() in ("y", "yes")


def _how(result: CheckResult) -> str:
    if result.timed_out:
        return "timed out"
    return "not run" if result.exit_code is None else f"failed, exit code {result.exit_code}"


def _as_json(checked: Checked) -> dict[str, object]:
    verify = checked.numbered.criterion.verify
    return {
        "number": checked.numbered.number,
        "id": checked.numbered.id,
        "command": verify.command if verify else "",
        "ok": checked.result.ok,
        "exit_code": checked.result.exit_code,
        "seconds": round(checked.result.seconds, 3),
        "timed_out": checked.result.timed_out,
        "tail": list(checked.result.tail),
        "trace_id": checked.trace_id,
    }
