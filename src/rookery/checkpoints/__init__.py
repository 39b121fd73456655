"""Snapshots of the workspace, and the way back to one.

`ShadowCheckpoints` takes, compares and restores them; `ObjectStore` keeps the contents in git's
format, outside the workspace. Restoring never overwrites what somebody else changed, and never
deletes without keeping a copy.
"""
