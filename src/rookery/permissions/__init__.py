"""Trust, approval, restrictions and stale files.

The hooks are `ApprovalGate` in `approval` and those in `restrictions`; `trust` stores which folders
the user trusts. A hook rules on an action and cannot act. Nothing here widens what a mode or a
restriction forbids.
"""
