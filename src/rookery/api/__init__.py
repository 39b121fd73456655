"""The Python API: what `import rookery` offers to programs.

`hosts` opens a host and its sessions, `blocking` is the same without async, `additions` turns
functions into tools and hooks, `plugins` loads packages that the user named. Public names are those
in `rookery.__all__`; everything else may change in any release.
"""
