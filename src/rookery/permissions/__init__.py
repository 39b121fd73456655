"""Trust, approval, restrictions and stale files.

Each module is a hook (`ApprovalGate`, `Restrictions`, `StaleGuard`, `TrustGate`) or stores what the
user allowed. A hook rules on an action and cannot act. Nothing here widens what a mode or a
restriction forbids.
"""
