"""Changes of a session or worktree: files, lines, and reverting a file.

Changes are read with hardened git, and nothing is stored in the repository.
"""
