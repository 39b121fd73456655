"""Reproducible randomness: a random test prints its seed, and ROOKERY_SEED sets it."""

import os
import random


def new_seed() -> int:
    given = os.environ.get("ROOKERY_SEED")
    seed = int(given) if given else random.randrange(1_000_000)
    print(f"ROOKERY_SEED={seed}", flush=True)
    return seed
