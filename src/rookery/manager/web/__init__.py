"""The web server of the Agent Manager, for one user.

It stays on the user's own machine unless they say otherwise. `WebServer` listens, `Guard`
checks every request before anything of it is read, `Routes` answers. Unauthenticated clients
get 401 and no data.
"""
