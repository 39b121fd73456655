"""Words of the user on their way to a session's engine: queued, sending, sent or failed.

Each has a number of its own, by which the engine knows it: however often it is sent, it is heard
once. One that was refused is not sent again unless the user wants that.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from rookery.errors import CommandRejected
from rookery.manager.sessions.orders import Letter
from rookery.manager.sessions.session_json import Mail

MOST_RETRIES = 3
SHOWN = 20
"""How many are remembered after they were sent."""


class Mailbox:
    def __init__(self, taken: int, mail: Sequence[Mail]) -> None:
        self.taken = taken
        """The number of the next letter that leaves the outbox of the machine."""
        # what was under way when its manager died is sent again
        self.mail = tuple(_back_in_line(each) for each in mail)

    def copy(self) -> "Mailbox":
        return Mailbox(self.taken, self.mail)

    @property
    def unsent(self) -> tuple[Mail, ...]:
        return tuple(each for each in self.mail if each.state != "sent")

    def post(self, letters: Sequence[Letter]) -> None:
        new = [Mail(number=self.taken + place, letter=each) for place, each in enumerate(letters)]
        self.taken += len(letters)
        sent = [each for each in self.mail if each.state == "sent"][-SHOWN:]
        self.mail = (*sent, *self.unsent, *new)

    def next(self) -> Mail | None:
        """The one to be sent now, which from now on is being sent."""
        for each in self.mail:
            if each.state in ("queued", "sending"):
                sending = replace(each, state="sending")
                self._put(sending)
                return sending
        return None

    def sent(self, number: int) -> None:
        self._put(replace(self._find(number), state="sent", problem=""))

    def refused(self, number: int, problem: str) -> None:
        self._put(replace(self._find(number), state="failed", problem=problem))

    def retry(self, number: int) -> None:
        """Raises `CommandRejected` if it cannot be sent again."""
        mail = self._failed(number)
        if mail.retries >= MOST_RETRIES:
            raise CommandRejected(f"It was refused {MOST_RETRIES + 1} times. Discard it.")
        self._put(replace(mail, state="queued", retries=mail.retries + 1, problem=""))

    def edit(self, number: int, letter: Letter | None) -> bool:
        """Other words in place of what was not sent yet, or none. Whether it was in time."""
        mail = next((each for each in self.mail if each.number == number), None)
        if mail is None or mail.state not in ("queued", "failed"):
            return False
        if letter:
            self._put(replace(mail, letter=letter))
        else:
            self.mail = tuple(each for each in self.mail if each is not mail)
        return True

    def discard(self, number: int) -> None:
        gone = self._failed(number)
        self.mail = tuple(each for each in self.mail if each is not gone)

    def _failed(self, number: int) -> Mail:
        mail = self._find(number)
        if mail.state != "failed":
            raise CommandRejected("That message has not failed.")
        return mail

    def _find(self, number: int) -> Mail:
        for each in self.mail:
            if each.number == number:
                return each
        raise CommandRejected("There is no such message.")

    def _put(self, mail: Mail) -> None:
        self.mail = tuple(mail if each.number == mail.number else each for each in self.mail)


def _back_in_line(mail: Mail) -> Mail:
    return replace(mail, state="queued") if mail.state == "sending" else mail
