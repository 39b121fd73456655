"""The tools a model may call, those of a kind in one file.

The `TOOLS` of a module are found by `registry`. `prepare` reads and returns an `Action`; only
`perform` changes something, and only with the permit of the gate.
"""
