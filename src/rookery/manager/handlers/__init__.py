"""Carries out what the manager is asked, one kind of request in each file.

`Router` finds the handler of a request. A handler checks, calls one service and returns rows;
it keeps no state of its own.
"""
