"""The page of the Agent Manager and what it talks to: a web server for one user, on their own
machine unless they say otherwise."""
