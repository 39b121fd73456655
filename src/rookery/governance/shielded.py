"""Which changes of a command are put back: those that only a person may allow."""

from rookery.core.facts import Effect
from rookery.core.protected_paths import OF_BUILDS, protected


def shielded(effect: Effect) -> bool:
    """Whether a command must not have done this by itself."""
    why = protected(effect.path, new=effect.before is None)
    return bool(why) and why not in OF_BUILDS


def nothing_shielded(effect: Effect) -> bool:
    """For a run whose user said so."""
    return False
