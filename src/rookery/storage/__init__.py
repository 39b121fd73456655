"""What is stored on disk for a user: journals, the session index, settings files, keys.

`TaskStore` has the sessions, `Journal` is one session's log. The journals are the source; the index
can be rebuilt from them.
"""
