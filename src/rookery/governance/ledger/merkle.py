"""Roots over many hashes (RFC 6962), as the auditor's script makes them."""

from collections.abc import Iterable

from rookery.governance.ledger.verify_ledger import PREFIX, MerkleTree


def merkle_root(hashes: Iterable[str]) -> str:
    """The root over record hashes in this order, in hex."""
    tree = MerkleTree()
    for each in hashes:
        tree.add(bytes.fromhex(each.removeprefix(PREFIX)))
    return tree.root
