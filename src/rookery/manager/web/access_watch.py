"""What all connections have in common: who may come in, who was wrong, who was turned away."""

from collections.abc import Callable
from http import HTTPStatus

from rookery.manager.web.failed_guesses import WrongGuesses
from rookery.manager.web.visitors import Visitors
from rookery.manager.web.web_tokens import Guest, Keys


class Watch:
    def __init__(self, keys: Keys, visitors: Visitors, tell: Callable[[int], None]) -> None:
        self.keys = keys
        self.visitors = visitors
        self.wrong_tokens = WrongGuesses()
        self.wrong_codes = WrongGuesses()
        self.blocked_requests = 0
        self._tell = tell

    def block(self) -> None:
        """A request was refused, of which the user is told."""
        self.blocked_requests += 1
        self._tell(self.blocked_requests)

    def guest(self, token: object, *, outside: bool, address: str) -> Guest | HTTPStatus:
        """Who has the token. Nobody who has one is kept out by what others get wrong, so that
        a page of yesterday that tries again and again does not lock out that of today."""
        if guest := self.keys.guest(token, outside=outside):
            return guest
        return _wrong(self.wrong_tokens, address)

    def wrong_code(self, address: str) -> HTTPStatus:
        """What somebody is told. Whoever has a right one is let in whatever others try: all who
        come through a tunnel have one address, and it is that of the user at this machine."""
        return _wrong(self.wrong_codes, address)


def _wrong(guesses: WrongGuesses, address: str) -> HTTPStatus:
    too_many = guesses.too_many(address)
    guesses.note(address)
    return HTTPStatus.TOO_MANY_REQUESTS if too_many else HTTPStatus.UNAUTHORIZED
