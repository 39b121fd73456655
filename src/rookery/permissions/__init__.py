"""Who may do what: trust, approval, restrictions, stale files.

Each module is a hook with an opinion (`ApprovalGate`, `Restrictions`, `StaleGuard`,
`TrustGate`) or a store of what the user allowed. A hook cannot act; nothing here widens what a
mode or a restriction forbids.
"""
