"""Secrets are removed from records; other text stays."""

import os
import time

import pytest

from rookery.governance.ledger.ledger_recording import SecretsFilter

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
]
SLOW = [
    "--", "-eyJaaaaaaaa", "sk-", "curl ", "curl -u ", "mysql -", "://", "https://a", "--password '",
    '--password "', "x-", "token", "_", "login a password ", "?", "a:", '"', "'token' : '", " ",
    "\\\"", "-----BEGIN ", "password=\"", "\\", "authorization: ", "bearer ", "cookie:",
]  # fmt: skip


@pytest.mark.parametrize(("text", "shown"), FOUND, ids=[shown for _, shown in FOUND])
def test_a_secret_is_replaced_and_counted(text: str, shown: str):
    assert SecretsFilter()(text) == (shown, 1)


def test_text_without_secrets_is_kept():
    assert [SecretsFilter()(text) for text in KEPT] == [(text, 0) for text in KEPT]


@pytest.mark.parametrize("piece", SLOW)
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
