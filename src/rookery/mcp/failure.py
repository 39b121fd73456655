"""Why there is no connection to a server."""


class Failure(Exception):
    """A server could not be started, or its connection is over; the text says why."""
