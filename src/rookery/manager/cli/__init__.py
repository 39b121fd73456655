"""`rookery manager` and `rookery sessions`.

They parse, send one request to the manager, and print the answer.
"""
