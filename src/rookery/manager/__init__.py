"""The Agent Manager: many sessions of a project, and one page to watch them.

`Manager` answers the requests of `requests`, `Supervisor` keeps the sessions, `web` serves the
page. Sessions run in processes of their own and survive the manager.
"""
