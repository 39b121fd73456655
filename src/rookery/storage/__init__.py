"""What is kept on disk for a user: journals, the index of sessions, settings files, keys.

`TaskStore` has the sessions, `Journal` is one session's log. The journals are the truth; the
index can be rebuilt from them.
"""
