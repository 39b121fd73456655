"""`rookery intents`, `rookery trace` and `rookery hooks`.

Commands parse options, call the other packages of governance, and print. `--json` prints the same
values.
"""
