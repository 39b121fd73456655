"""Git's own files, read without running git, and the options that make git safe to run.

`git_folders` finds repositories, `git_index` reads what is tracked, `git_hardening` switches
off what a repository could run.
"""
