"""`rookery intents close`: run the checks of an intent and ask about its other criteria."""

import sys
from collections.abc import Sequence

import click
from msgspec import Struct

from rookery import NAME
from rookery.core.text.terminal_text import cells_of, counted, harmless_line
from rookery.engine.ports.checks import CheckResult
from rookery.errors import RookeryError, SettingsError
from rookery.governance.cli.common import (
    FINDINGS,
    GovernedFolder,
    ask,
    governed_command,
    is_interactive,
    now,
)
from rookery.governance.cli.intents_changes import (
    IntentChanger,
    change_status,
    possible_move,
    tasks_note,
)
from rookery.governance.criteria import check_criterion, criterion_id
from rookery.governance.intents.intent import (
    Criterion,
    Intent,
    LastVerification,
    timestamp,
)
from rookery.governance.intents.intent_edits import PlannedChange, SetVerification, edits_for
from rookery.governance.intents.intent_file import IntentText

WIDTH = 60


class Numbered(Struct, frozen=True, kw_only=True):
    """A criterion with its position, counted from 1."""

    number: int
    criterion: Criterion

    @property
    def id(self) -> str:
        return criterion_id(self.number, self.criterion)

    def has_name(self, name: str) -> bool:
        """Whether `name` is its id, or its position with or without the letter."""
        return name.lower() in (self.id.lower(), f"a{self.number}", str(self.number))


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
@governed_command
def close_command(
    governed: GovernedFolder,
    intent_id: str,
    abandon: bool,
    force: bool,
    reason: str,
    met: Sequence[str],
) -> int:
    """Complete an intent. Its acceptance criteria are checked first; each command is shown
    before it runs."""
    if force and not reason.strip():
        raise SettingsError("--force needs --reason.")
    if abandon:
        return change_status(governed, "abandon", governed.intent(intent_id), reason)
    intent = governed.valid_intent(intent_id)
    possible_move("close", intent, governed.usable)
    if force:
        return change_status(governed, "close", intent, f"forced: {reason}")
    return _Closing(governed, intent, reason, met).close()


class _Closing:
    def __init__(
        self,
        governed: GovernedFolder,
        intent: Intent,
        reason: str,
        met: Sequence[str],
    ) -> None:
        self._governed = governed
        self._intent = intent
        self._reason = reason
        self._changer = IntentChanger(governed)
        criteria = [
            Numbered(number=number, criterion=each)
            for number, each in enumerate(intent.acceptance_criteria, start=1)
        ]
        self._checks = [each for each in criteria if each.criterion.verify]
        self._manual = [each for each in criteria if not each.criterion.verify]
        self._met = frozenset(self._find_manual(each).id for each in met)

    def _find_manual(self, name: str) -> Numbered:
        found = next((each for each in self._manual if each.has_name(name)), None)
        if found is None:
            known = ", ".join(each.id for each in self._manual)
            ones = f"They are: {known}." if known else "A command checks each of them."
            raise SettingsError(f"{name} is not a criterion that a person confirms. {ones}")
        return found

    def close(self) -> int:
        self._require_person()
        self._require_trust()
        checked = self._check_all()
        failed = [each for each in checked if not each.result.ok]
        unmet = [] if failed else [each for each in self._manual if not self._is_met(each)]
        if failed or unmet:
            return self._stay_open(checked, failed, unmet)
        held = [each.numbered.id for each in checked] + [each.id for each in self._manual]
        made = self._changer.change(
            "close", lambda text: self._plan(text, checked, held), reason=self._reason
        )
        self._governed.echo(f"{made.after.id} {made.after.status}.{tasks_note(made)}")
        self._report(str(made.after.status), checked, unmet)
        return 0

    @property
    def _is_interactive(self) -> bool:
        """Whether the user can be asked: at a terminal and without `--json`."""
        return is_interactive() and not self._governed.as_json

    def _require_person(self) -> None:
        """Refuse before the checks run if a criterion needs a person and there is none to ask."""
        left = [each.id for each in self._manual if each.id not in self._met]
        if left and not self._is_interactive:
            spelled = " ".join(f"--met {each}" for each in left)
            raise RookeryError(
                f"{self._intent.id} stays {self._intent.status}: not interactive, and "
                f"criterion {', '.join(left)} needs a person. Confirm it with "
                f"{spelled}, or give --force --reason."
            )

    def _require_trust(self) -> None:
        if not self._checks or self._governed.trusted:
            return
        commands = [
            f"  {harmless_line(each.criterion.verify.command)}"
            for each in self._checks
            if each.criterion.verify
        ]
        if not self._is_interactive:
            raise RookeryError(
                f"{self._intent.id} stays {self._intent.status}: its checks come from a folder "
                f"that is not trusted, so none was run. Trust it with: {NAME} trust"
            )
        print("This folder is not trusted, and closing runs its checks:", *commands, sep="\n")
        if not _confirm("run it? [y/N] "):
            raise RookeryError(f"{self._intent.id} stays {self._intent.status}: nothing was run.")

    def _check_all(self) -> list[Checked]:
        import anyio

        if not self._checks:
            return []
        self._governed.echo(f"running {counted(len(self._checks), 'check')}")
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
                self._print_start(head)
                result = await check_criterion(verify, self._governed.layout, shell)
                self._print_result(head, result)
                trace_id = self._changer.note_check(
                    self._intent, each.id, verify.command, result.exit_code, ok=result.ok
                )
                done.append(Checked(numbered=each, result=result, trace_id=trace_id))
        return done

    def _print_start(self, head: str) -> None:
        if not (self._governed.quiet or self._governed.as_json):
            print(head, end="", flush=True)

    def _print_result(self, head: str, result: CheckResult) -> None:
        paint = self._governed.paint
        word = paint.green("ok") if result.ok else paint.red(_failure_text(result))
        dots = "." * max(3, WIDTH - cells_of(head))
        self._governed.echo(f"{dots} {word} ({result.seconds:.1f} s)")
        if not result.ok:
            self._governed.echo(*(f"    {harmless_line(line)}" for line in result.tail))

    def _is_met(self, numbered: Numbered) -> bool:
        if numbered.id in self._met:
            return True
        text = harmless_line(numbered.criterion.text)
        return _confirm(f'criterion {numbered.id} needs a human: "{text}"  met? [y/N] ')

    def _stay_open(
        self, checked: Sequence[Checked], failed: Sequence[Checked], unmet: Sequence[Numbered]
    ) -> int:
        if checked:
            held = [each.numbered.id for each in checked if each.result.ok]
            verification = self._verification(checked, held, ok=not failed)
            self._changer.change("verify", lambda text: self._plan_verification(text, verification))
        what = (
            f"{counted(len(failed), 'check')} failed"
            if failed
            else f"not met: criterion {', '.join(each.id for each in unmet)}"
        )
        print(f"{self._intent.id} stays {self._intent.status}: {what}.", file=sys.stderr)
        self._report(str(self._intent.status), checked, unmet)
        return FINDINGS

    def _plan(
        self, text: IntentText, checked: Sequence[Checked], held: Sequence[str]
    ) -> PlannedChange:
        current = self._unchanged(text)
        step, at = possible_move("close", current, text.file), timestamp(now())
        edits = edits_for(step, current, at=at, by=self._changer.by, reason=self._reason)
        proof = SetVerification(self._verification(checked, held, ok=True))
        more = {"checks": len(checked), "met_by_person": [each.id for each in self._manual]}
        edits = (*edits, proof) if held else edits
        return PlannedChange(intent_id=current.id, edits=edits, more=more)

    def _plan_verification(self, text: IntentText, result: LastVerification) -> PlannedChange:
        edits, more = (SetVerification(result),), {"ok": result.ok}
        return PlannedChange(intent_id=self._unchanged(text).id, edits=edits, more=more)

    def _unchanged(self, text: IntentText) -> Intent:
        """The intent that was checked. Raises `RookeryError` if the file was edited since."""
        if text.data != self._governed.text.data:
            raise RookeryError(
                f"The intent file changed while {self._intent.id} was being closed, "
                "so it was not closed. Check the file, then close it again."
            )
        return self._intent

    def _verification(
        self, checked: Sequence[Checked], held: Sequence[str], *, ok: bool
    ) -> LastVerification:
        last = checked[-1].trace_id if checked else ""
        return LastVerification(at=timestamp(now()), ok=ok, criteria=tuple(held), trace_id=last)

    def _report(self, status: str, checked: Sequence[Checked], unmet: Sequence[Numbered]) -> None:
        not_met = {each.id for each in unmet}
        self._governed.print_json(
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


def _confirm(question: str) -> bool:
    return ask(question).lower() in ("y", "yes")


def _failure_text(result: CheckResult) -> str:
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
