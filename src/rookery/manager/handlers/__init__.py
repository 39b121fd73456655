"""Handlers of the manager's requests, one file per group of requests.

`Router` finds the handler of a request. A handler checks, calls one service and returns rows; it
keeps no state of its own.
"""
