"""Commands run in a home of the test's own."""

from support.user_home import home

__all__ = ["home"]
