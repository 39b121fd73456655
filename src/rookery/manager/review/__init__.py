"""Changes of a session or worktree: files, lines, and reverting a file.

`ReviewOperations` is the interface. It reads with hardened git and stores nothing in the
repository.
"""
