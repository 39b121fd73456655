"""Protects the git repositories of a workspace from commands.

`GitWatch` is the hook, `GitMending` puts back what a command destroyed, `GitCopy` is the copy
it uses. It runs no git and nothing that a repository configures.
"""
