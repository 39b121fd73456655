"""What the engine needs from the outside world, as protocols and plain values.

The engine imports nothing that touches a network, a disk or a terminal. It is handed objects of
these shapes by the composition root, and fakes of these shapes by the tests. Import a name from
the module that defines it.
"""
