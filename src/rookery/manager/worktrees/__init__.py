"""Separate checkouts of a project, each with a branch of its own.

`WorktreeOperations` offers everything as calls, `Git` is git without filters, drivers and hooks.
Nothing is removed before it is kept under a reference.
"""
