"""Finding code by words: what a workspace holds, in pieces, ranked."""
