"""What the operating system offers: disk, locks, paths, patterns, git's files, processes.

`disk.put` replaces files, `locks` holds locks, `user_folders` knows where things are kept. It
knows nothing of agents and imports nothing of ours but `errors`.
"""
