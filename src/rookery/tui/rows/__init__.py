"""Rows of the transcript as lines of a terminal.

Functions from a row and a width to lines; no widgets and no state.
"""
