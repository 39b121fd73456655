"""Every number at which the web server stops, waits or cuts. Sizes are bytes, times seconds."""

from rookery.core.limits import KIB, MIB

HEAD = 16 * KIB
"""Of a request: its line and all its headers."""
HEADERS = 64
"""Their number."""
CODE_BODY = KIB
"""Of a request that exchanges a code, from somebody who is not known yet."""
BODY = 2 * MIB
UPLOAD = 20 * MIB
"""Of a request with pictures."""
FRAME = MIB
FIRST_FRAME = 4 * KIB
"""Of somebody who is not known yet."""
STRANGERS_FRAMES = 16 * KIB
"""All that is read of them on a WebSocket, small frames and pings too."""

CONNECTIONS = 64
"""At once, from this machine, and as many from others. When one more comes, the oldest one goes
that is not known yet."""
CONNECTIONS_OF_A_DEVICE = 16
"""When it makes one more, its oldest one goes."""
WRONG_PER_MINUTE = 10
"""Tokens, and codes, of one address."""
ADDRESSES_REMEMBERED = 1000
DEVICES = 32

INTRODUCTION = 5.0
"""For a whole head of a request, and for the token on a WebSocket."""
STRANGERS_REQUEST = 20.0
"""For all of a request of somebody who is not known."""
WHOLE_BODY = 60.0
BETWEEN_REQUESTS = 15.0
STALLED = 30.0
"""For somebody who does not take what is sent to them."""
PING = 20.0
GOODBYE = 3.0
"""For all connections, when the server ends."""

LAUNCH_CODE = 60.0
PAIRING_CODE = 300.0
CODES = 16
"""That are open at once; the oldest goes when another is made."""
