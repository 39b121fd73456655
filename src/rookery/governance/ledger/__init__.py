"""The ledger: a hash-chained record of what agents changed, and why.

`Ledger` appends, `TracedRecord` is what readers get, `verify_ledger` is the auditor's stand-alone
script. Records hold hashes and line ranges, never content, and are never rewritten.
"""
