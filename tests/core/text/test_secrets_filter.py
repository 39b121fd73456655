"""Secrets are removed from records; other text stays."""

import os
import random
import re
import time
from functools import partial

import pytest

from rookery.core.text import secrets_filter
from rookery.core.text.secrets_filter import SecretsFilter
from support.chance import new_seed
from support.each_row import each_row

LONG = 200_000 if os.environ.get("ROOKERY_TORTURE") else 20_000

WORD = "aB3dE5gH7jK9mN1pQ3sT5vX7z"
FOUND = [
    ("export T=ghp_" + "x1Y2" * 9, "export T=[redacted:github-token]"),
    ("github_pat_" + "A1b2" * 8, "[redacted:github-token]"),
    ("glpat-" + "x" * 20, "[redacted:gitlab-token]"),
    ("xoxb-123456789012-abcdef", "[redacted:slack-token]"),
    ("AKIAIOSFODNN7EXAMPLE", "[redacted:aws-key]"),
    ("AIza" + "b" * 35, "[redacted:google-key]"),
    ("sk-ant-api03-" + "x" * 40, "[redacted:api-key]"),
    ("sk-" + "q" * 48, "[redacted:api-key]"),
    ("npm_" + "a" * 36, "[redacted:package-token]"),
    (
        "git clone https://me:hunter22@example.org/x",
        "git clone https://[redacted:url-password]@example.org/x",
    ),
    (
        "curl -u x -H 'Authorization: Bearer abc.def-ghi'",
        "curl -u x -H 'Authorization: Bearer [redacted:bearer]'",
    ),
    ("mysql --password=hunter22 db", "mysql --password=[redacted:password] db"),
    ("TOKEN='some words'", "TOKEN=[redacted:password]"),
    (f"echo {WORD} > x", "echo [redacted:random] > x"),
    ("eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJ", "[redacted:jwt]"),
    (
        "echo '-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----' > k",
        "echo '[redacted:private-key]' > k",
    ),
    ("login --password hunter2 db", "login --password [redacted:password] db"),
    ("login --password 'two words' db", "login --password [redacted:password] db"),
    ('x --db-password=pa"ss wo"rd y', "x --db-password=[redacted:password] y"),
    ("deploy --api-key k1 --dry-run", "deploy --api-key [redacted:password] --dry-run"),
    ("mysql -u root -phunter2 db", "mysql -u root -p[redacted:password] db"),
    ("sshpass -p hunter2 ssh host", "sshpass -p [redacted:password] ssh host"),
    ("redis-cli -h x -a hunter2 ping", "redis-cli -h x -a [redacted:password] ping"),
    ("curl -u me:hunter2 https://x", "curl -u me:[redacted:password] https://x"),
    ("curl -sSu 'me:hunter2' https://x", "curl -sSu 'me:[redacted:password]' https://x"),
    ("curl --user me:hunter2 https://x", "curl --user me:[redacted:password] https://x"),
    ("curl -H 'X-Api-Key: hunter2' u", "curl -H 'X-Api-Key: [redacted:header]' u"),
    ('-H "PRIVATE-TOKEN: hunter2"', '-H "PRIVATE-TOKEN: [redacted:header]"'),
    ("Authorization: Token hunter2", "Authorization: Token [redacted:header]"),
    ("-b 'Cookie: sid=hunter2; b=2'", "-b 'Cookie: [redacted:header]'"),
    ("""-d '{"password": "hunter2"}'""", """-d '{"password": "[redacted:password]"}'"""),
    ('-d "{\\"token\\": \\"hunter2\\"}"', '-d "{\\"token\\": \\"[redacted:password]\\"}"'),
    ("git clone https://hunter2@host/x", "git clone https://[redacted:url-password]@host/x"),
    ("git clone https://:hunt@er2@host/x", "git clone https://[redacted:url-password]@host/x"),
    ("curl 'https://x/y?key=hunter2&z=1'", "curl 'https://x/y?key=[redacted:url-key]&z=1'"),
    ("openssl rsa -passin pass:hunter2", "openssl rsa -passin pass:[redacted:password]"),
    (
        "aws configure set aws_secret_access_key wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "aws configure set aws_secret_access_key [redacted:password]",
    ),
    ("AWS_SECRET_ACCESS_KEY=hunter2", "AWS_SECRET_ACCESS_KEY=[redacted:password]"),
    ("machine x login y password hunter2", "machine x login y password [redacted:password]"),
    ("db_password: hunter2", "db_password: [redacted:password]"),
    ('client_secret = "hunter2"', 'client_secret = "[redacted:password]"'),
    ("$password => 'two words'", "$password => '[redacted:password]'"),
    ('password: "two words"', 'password: "[redacted:password]"'),
    ("psk=hunter2hunter2", "psk=[redacted:password]"),
    ("localhost:5432:db:me:hunter2", "localhost:5432:db:me:[redacted:password]"),
    (f"client-key-data: {'LS0/' * 20}", "client-key-data: [redacted:password]"),
    ("me:$2y$05$" + "aB./" * 13, "me:[redacted:password-hash]"),
    ("https%3A%2F%2Fme%3Ahunter2%40host", "https%3A%2F%2F[redacted:url-password]%40host"),
    ("xapp-1-A0-12-" + "ab" * 20, "[redacted:slack-token]"),
    (
        "https://hooks.slack.com/services/T0/B0/" + "x" * 24,
        "https://hooks.slack.com/services/[redacted:webhook]",
    ),
    (
        "https://discord.com/api/webhooks/12345678/" + "x" * 30,
        "https://discord.com/api/webhooks/[redacted:webhook]",
    ),
    ("a ghp_aB3dE5\n  gH7jK9mN1p\n  Q3sT5vX7z.\n", "a [redacted:token].\n"),
    ("+glpat-x1y2z3\\\n+a4b5c6d7e8f9", "+[redacted:token]"),
    ("dop_v1_" + "0a" * 32, "[redacted:service-token]"),
    ("shpat_" + "0a" * 16, "[redacted:service-token]"),
    ("AGE-SECRET-KEY-1" + "Q0" * 29, "[redacted:service-token]"),
    ("SG." + "a1" * 11 + "." + "b2" * 20, "[redacted:service-token]"),
    ("gsk_" + "ab1" * 10, "[redacted:service-token]"),
    ("xai-" + "ab1" * 10, "[redacted:service-token]"),
    ("dapi" + "0a" * 16, "[redacted:service-token]"),
    ("123456789:AA" + "b1_" * 11, "[redacted:service-token]"),
    ("glrt-" + "x" * 20, "[redacted:gitlab-token]"),
    ("sk-ant-oat01-AbCd-12-34_xyz-98", "[redacted:api-key]"),
    ("me:$apr1$abcdefgh$" + "aB./" * 6, "me:[redacted:password-hash]"),
    (
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQ\n-----END PGP PRIVATE KEY BLOCK-----",
        "[redacted:private-key]",
    ),
    (
        f"$ tail -3 key\n{'aB/+' * 16}\n{'x' * 24}==\n-----END RSA PRIVATE KEY-----",
        "$ tail -3 key\n[redacted:private-key]-----",
    ),
    (
        "Private-Lines: 1\nAAAA\nPrivate-MAC: 0",
        "Private-Lines: [redacted:private-key]Private-MAC: 0",
    ),
    (r"https:\/\/me:hunter2@host\/x", r"https:\/\/[redacted:url-password]@host\/x"),
    ("<password>hunter2</password>", "<password>[redacted:password]</password>"),
    ("12 | secret: hunter22", "12 | secret: [redacted:password]"),
    ("AUTH=hunter22", "AUTH=[redacted:password]"),
    ("Uid=me;Pwd=hunter22;", "Uid=me;Pwd=[redacted:password];"),
    ("pwd = 'hunter2'", "pwd = '[redacted:password]'"),
    ('{"privateKey": "hunter2"}', '{"privateKey": "[redacted:password]"}'),
    ("docker login -u me -p hunter2 reg", "docker login -u me -p [redacted:password] reg"),
    ("zip -P hunter2 a.zip", "zip -P [redacted:password] a.zip"),
    ("openssl enc -aes256 -k hunter2", "openssl enc -aes256 -k [redacted:password]"),
    ("gh secret set X --body hunter2", "gh secret set X --body [redacted:password]"),
    ("set -x API_TOKEN hunter2", "set -x API_TOKEN [redacted:password]"),
    ("ALTER USER x IDENTIFIED BY 'hunter2'", "ALTER USER x IDENTIFIED BY '[redacted:password]'"),
    ("get(u, auth=('me', 'hunter2'))", "get(u, auth=('me', '[redacted:password]'))"),
]
KEPT = [
    "pytest -q tests/auth/test_sessions_and_tokens.py::test_one",
    "git show 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "sha256sum e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "cat src/rookery/workspace/ledger/secrets_filter.py",
    "npm run build --workspace=packages/frontend-components",
    "PYTHONPATH=src python -m rookery.governance.ledger.verify_ledger",
    "token count: 512, password rules apply",
    "docker run -u 1000:1000 -p 8080:80 image",
    "mkdir -p mysql && find mysql -print",
    "mysql -u root -p db",
    "psql --password -h localhost db",
    "git clone ssh://git@example.org/x",
    "curl 'http://localhost:8080/?email=me@example.org'",
    "pytest -k 'token or password' --secret-file x",
    "PWD=/src make token",
    "the prefix ghp_x\nends here",
    "PWD=/home/me2/src make",
    "unzip -p archive1.zip | head",
    "tokens = count(words2)",
    "secret: see the next page",
    "secret_key_of_the_application",
]
SLOW = [
    "--", "-eyJaaaaaaaa", "sk-", "curl ", "curl -u ", "mysql -", "://", "https://a", "--password '",
    '--password "', "x-", "token", "_", "login a password ", "?", "a:", '"', "'token' : '", " ",
    "\\\"", "-----BEGIN ", "password=\"", "\\", "authorization: ", "bearer ", "cookie:",
    "%3a%2f%2f", "a.b:1234:", "a.", "*:*:", "$2y$", "password: '", "SG.aaaaaaaaaaaaaaaa.", "psk=",
    "ghp_a\n", "ghp_", "Private-Lines: 1", "a" * 16 + "\n", "<password>", "token: a1 ", "login ",
    "zip ", "openssl enc ", "secret set ", "auth=('", "auth = (\"a", "identified by '", "1//0",
    "dp.pt.",
]  # fmt: skip

NEARLY = [
    *("password", "paſſword", "toKen", "TOKEN", "İ", "api-key", "secret_access_key", "credentials"),
    *("hunter22", "a1b2c3d4e5", "A1" * 10, "0a" * 16, "x" * 20, "ghp_", "sk_live_", "eyJ", "AKIA"),
    *("123456789", ":AA", "8Q~", "%40", "curl -u ", "set -x ", "identified by ", "Basic ", "1//0"),
]


@pytest.mark.parametrize(("text", "shown"), FOUND, ids=[shown for _, shown in FOUND])
def test_a_secret_is_replaced_and_counted(text: str, shown: str):
    assert SecretsFilter()(text) == (shown, 1)


def test_text_without_secrets_is_kept():
    assert [SecretsFilter()(text) for text in KEPT] == [(text, 0) for text in KEPT]


class PlainSearch(SecretsFilter):
    """Tries every pattern at every character."""

    def shapes(self, text: str) -> str:
        return secrets_filter._BROKEN.sub(
            self._broken, secrets_filter._TOKENS.sub(self._token, text)
        )

    def _places(self, text: str) -> str:
        for kind, _, place in secrets_filter._PLACES:
            pattern = re.compile(place, re.IGNORECASE)
            text = pattern.sub(partial(self._around, kind), text)
        return text


def test_hints_find_everything_that_a_plain_search_finds():
    chance, plain, hinted = random.Random(new_seed()), PlainSearch(), SecretsFilter()
    pieces = [*(text for text, _ in FOUND), *KEPT, *SLOW * 2, *NEARLY, *" \n=:'\"-_/@\\"]
    for _ in range(20_000 if os.environ.get("ROOKERY_TORTURE") else 1_000):
        mark = chance.choice(["", "", " ", "\n"])
        text = mark.join(chance.choices(pieces, k=chance.randint(1, 12)))
        cut = chance.randrange(len(text))
        for each in (text, text[cut:] + text[:cut]):
            assert hinted(each) == plain(each)
    assert hinted.found == plain.found


@each_row("piece", SLOW)
def test_no_text_is_slow(piece: str):
    """What takes more than linear time would take minutes here, or a minute."""
    text = (piece * LONG)[:LONG]
    began = time.process_time()
    SecretsFilter()(text)
    assert time.process_time() - began < 5


def test_values_of_variables_with_secret_names_are_known():
    environment = {"DEPLOY_KEY": "a plain phrase", "HOME": "a plain house", "X_TOKEN": "short"}
    hide = SecretsFilter(environment)
    text = "use a plain phrase in a plain house, short"
    assert hide(text) == ("use [redacted:environment] in a plain house, short", 1)
