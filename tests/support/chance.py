"""Chance that can be repeated: a random test prints its seed, and ROOKERY_SEED gives it back."""

import os
import random


def new_seed() -> int:
    given = os.environ.get("ROOKERY_SEED")
    seed = int(given) if given else random.randrange(1_000_000)
    print(f"ROOKERY_SEED={seed}", flush=True)
    return seed
