"""The sandbox commands run in: what they may write, read and reach.

`Sandbox` builds the confinement, `bubblewrap` and `landlock` enforce it, `Launching` starts a
permitted command in it. Where a layer is missing it says so and never pretends.
"""
