"""`rookery trust`: which folders may be worked in, and what is allowed there.

It asks, stores the answer, and prints.
"""
