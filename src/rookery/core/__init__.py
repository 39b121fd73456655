"""The pure kernel: facts, folds over them, and the decision what to do next.

`facts` lists everything that can happen, `next_step` decides, `commands` and `queries` are what
clients may request. No I/O, clock or randomness, and no import of our other packages.
"""
