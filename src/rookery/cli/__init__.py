"""The command `rookery`: options, the choice of client, exit codes.

`main` lists the commands; those of a feature live in the feature (`governance/cli`, `manager/cli`).
This package may import `app`, `protocol`, the clients and the features' `cli` packages, and holds
no rules of its own.
"""
