"""Files that are not indexed whatever is in them: made by programs, or made to hold secrets.

A search for exact text may well look into the latter. An index would keep their words, and
vectors of them may be made elsewhere.
"""

import re
from fnmatch import translate

from rookery.core.credential_paths import holds_secrets

_NOISE = "*.lock *-lock.json *-lock.yaml *.sum *.map *.min.js *.min.css *.svg"
_UNFIT = re.compile("|".join(map(translate, _NOISE.split())))


def is_unfit(path: str) -> bool:
    return holds_secrets(path) or _UNFIT.match(path.rpartition("/")[2].lower()) is not None
