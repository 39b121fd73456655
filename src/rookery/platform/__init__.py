"""Access to the operating system: disk, locks, paths, patterns, git's files, processes.

`disk.put` replaces files, `locks` holds locks, `user_folders` knows where files are stored. The
package knows nothing about agents and imports nothing else of rookery but `errors`.
"""
