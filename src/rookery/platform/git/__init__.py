"""Git's own files, read without running git, and the one way in which git is run.

`git_folders` finds repositories, `git_index` reads what is tracked, `git_runner` runs git without
what a repository could make it run.
"""
