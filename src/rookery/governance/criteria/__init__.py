"""Acceptance criteria: how they are checked, and how each one stands.

`check_criterion` runs the command that proves one. A criterion counts as met only by a check
that ran.
"""
