"""Snapshots of the workspace, and restoring them.

`ShadowCheckpoints` takes, compares and restores snapshots; `ObjectStore` keeps file contents in
git's format, outside the workspace. A restore never overwrites changes made by others, and never
deletes content that no checkpoint has without moving it aside first.
"""
