"""Secrets are taken out of what is recorded; what is no secret stays."""

import pytest

from rookery.workspace.ledger.secrets_filter import SecretsFilter

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
]
KEPT = [
    "pytest -q tests/auth/test_sessions_and_tokens.py::test_one",
    "git show 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "sha256sum e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "cat src/rookery/workspace/ledger/secrets_filter.py",
    "npm run build --workspace=packages/frontend-components",
    "PYTHONPATH=src python -m rookery.core.ledger.verify_ledger",
    "token count: 512, password rules apply",
]


@pytest.mark.parametrize(("text", "shown"), FOUND, ids=[shown for _, shown in FOUND])
def test_15_13_a_secret_is_replaced_and_counted(text: str, shown: str):
    assert SecretsFilter()(text) == (shown, 1)


@pytest.mark.parametrize("text", KEPT)
def test_15_13_what_is_no_secret_stays(text: str):
    assert SecretsFilter()(text) == (text, 0)


def test_15_13_values_of_variables_with_secret_names_are_known():
    environment = {"DEPLOY_KEY": "a plain phrase", "HOME": "a plain house", "X_TOKEN": "short"}
    hide = SecretsFilter(environment)
    text = "use a plain phrase in a plain house, short"
    assert hide(text) == ("use [redacted:environment] in a plain house, short", 1)
