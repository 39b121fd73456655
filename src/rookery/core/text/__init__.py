"""Algorithms on text that several packages share: lines, diffs, edits, widths, hidden characters.

Pure functions and small values. Nothing here knows about files, tasks or models.
"""
