"""The pure heart: facts, the folds over them, and the decision what to do next.

`facts` is everything that can happen, `next_step` decides, `commands` and `queries` are what
clients may request. No I/O, clock or randomness, and no import of other packages of ours.
"""
