"""Sessions over many machines, with PostgreSQL and DBOS.

`journal` keeps the log of a session in the database, `orders` has what people and scripts ask of
the fleet, `checkouts` carries files from one machine to the next with git, `session_life` runs a
session on one worker, and `slot` is the process that takes sessions from the queues.

Nothing here is loaded by a run on one machine. The database holds no keys: providers and git are
set up on the workers.
"""
