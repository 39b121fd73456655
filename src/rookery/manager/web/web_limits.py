"""Limits of the web server. Sizes are in bytes, times in seconds."""

from rookery.core.limits import KIB, MIB

HEAD = 16 * KIB
"""Request line and headers."""
HEADERS = 64
"""Number of headers."""
CODE_BODY = KIB
"""Body of a request that exchanges a code, which is not authenticated yet."""
BODY = 2 * MIB
UPLOAD = 20 * MIB
"""Body of a request with images."""
FRAME = MIB
FIRST_FRAME = 4 * KIB
"""A frame before authentication."""
ANONYMOUS_FRAMES = 16 * KIB
"""All that is read from a WebSocket before authentication, including pings."""

CONNECTIONS = 64
"""Concurrent connections from this machine, and as many from others. A further one closes the
oldest unauthenticated one."""
CONNECTIONS_OF_A_DEVICE = 16
"""A further one closes its oldest."""
WRONG_PER_MINUTE = 10
"""Wrong tokens, and wrong codes, per address."""
ADDRESSES_REMEMBERED = 1000
DEVICES = 32

HANDSHAKE = 5.0
"""For the head of a request, and for the token on a WebSocket."""
ANONYMOUS_REQUEST = 20.0
"""For an unauthenticated request."""
WHOLE_BODY = 60.0
BETWEEN_REQUESTS = 15.0
STALLED = 30.0
"""For a client that does not read what is sent."""
PING = 20.0
SHUTDOWN = 3.0
"""For all connections when the server ends."""

LAUNCH_CODE = 60.0
PAIRING_CODE = 300.0
CODES = 16
"""Valid codes; a further one replaces the oldest."""
