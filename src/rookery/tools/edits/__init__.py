"""Edit engines: how a change that a model describes is found and made in a text.

Pure functions from a text and an edit to a new text, or to an explanation of why not. They
never guess between two places.
"""
