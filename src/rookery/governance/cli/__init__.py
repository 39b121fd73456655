"""`rookery intents`, `rookery trace` and `rookery hooks`.

They parse, ask the parts of governance, and print. `--json` prints the same values.
"""
