"""Diffs of git repositories: their review by a model, and messages for commits.

`unified` reads a diff, `git_diffs` gets one from git, a file or `gh`, `review_parts` cuts it into
messages for the model, `findings` places what the model found and prints it.
`cli.commit` asks for a commit message and cleans it. A diff is untrusted: it reaches the model as
quoted text, in a session that has only reading tools, or none.
"""
