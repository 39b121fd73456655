"""Renders transcript rows as terminal lines.

These are functions from a row and a width to lines. They contain no widgets.
"""
