"""Code search by words and by embeddings.

`CodeIndex` answers queries, `Outliner` lists the definitions of a file, `SyntaxReader` parses in a
separate process. The index can always be rebuilt from the files, so it may be deleted at any time.
"""
