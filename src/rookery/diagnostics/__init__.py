"""Finds out what an edit broke: language servers, the project's checks, formatters.

`EditWatch` is called around the edits of a task. It compares what is wrong after an edit with what
was wrong before it, and passes on only what is new. Commands of the settings go through the gate
like any other. Language servers run in the sandbox, and only in a trusted folder.
"""
