"""What a session or a worktree has changed: files, lines, and putting one file back.

`ReviewOperations` offers it as calls. It reads with hardened git and stores nothing in the
repository.
"""
