"""Files that are not indexed whatever is in them: made by programs, or made to hold secrets.

A search for exact text may well look into the latter. An index would keep their words, and
vectors of them may be made elsewhere.
"""

import re
from fnmatch import translate

_NOISE = "*.lock *-lock.json *-lock.yaml *.sum *.map *.min.js *.min.css *.svg"
_SECRETS = """
    .env .env.* *.env .envrc .netrc .npmrc .pypirc .pgpass .htpasswd .git-credentials
    *.pem *.key *.p12 *.pfx *.jks *.keystore *.kdbx *.asc *.gpg *.tfvars *.tfstate
    id_rsa id_dsa id_ecdsa id_ed25519 credentials credentials.* secrets.*
"""
_UNFIT = re.compile("|".join(map(translate, (_NOISE + _SECRETS).split())))


def is_unfit(path: str) -> bool:
    return _UNFIT.match(path.rpartition("/")[2].lower()) is not None
