"""Search of code by words and meaning.

`CodeIndex` answers queries, `Outliner` lists what a file defines, `SyntaxReader` parses in a
process of its own. The index may be deleted at any time; it is never the only place of
anything.
"""
