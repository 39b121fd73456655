"""What the engine needs from the outside world, as protocols and plain values.

The engine imports nothing that touches a network, a disk or a terminal. `app` passes in objects of
these types, and so do tests. Import a name from the module that defines it.
"""
