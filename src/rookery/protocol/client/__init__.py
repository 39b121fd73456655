"""What every client of a host needs: following a task, reading questions, telling outcomes.

`attend` follows one task to its end. It prints nothing and draws nothing.
"""
