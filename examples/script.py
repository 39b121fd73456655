"""The API without async: two turns of one session, in a plain script."""

import sys

import rookery

with rookery.open_sync() as host:
    session = host.start(sys.argv[1])
    print("first:", session.finish().text)
    session.say("And now?")
    print("second:", session.finish().text)
