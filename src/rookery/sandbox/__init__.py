"""The sandbox for commands: what they may write, read and reach.

`Sandbox` builds the confinement, `bubblewrap` and `landlock` enforce it, and `SandboxLauncher`
starts a permitted command in it. A missing layer is always reported.
"""
