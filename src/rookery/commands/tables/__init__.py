"""Tables of the programs that only read, with the options they may be given unasked.

Data only: the reading of them is in `commands.programs`.
"""
