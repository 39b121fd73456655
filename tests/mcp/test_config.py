"""Valid and invalid configuration files."""

import json
from typing import Any

import pytest

from rookery.mcp.config import (
    NEITHER,
    TAKEN,
    UNKNOWN,
    OAuthOptions,
    Parsed,
    ServerDefinition,
    Transport,
    merged,
    parse,
)

VARIABLES = {"TOKEN": "secret", "workspaceFolder": "/work"}


def parsed(servers: Any, source: Any = "user") -> Parsed:
    return parse(json.dumps({"mcpServers": servers}).encode(), source, VARIABLES)


def test_the_client_of_a_sign_in_is_parsed_and_its_secret_is_one():
    oauth = {"clientId": "me", "clientSecret": "${env:TOKEN}", "callbackPort": 8123}
    url = {"type": "http", "url": "https://example.com/mcp"}
    found = parsed({"a": {**url, "oauth": oauth}, "b": {**url, "oauth": False}})
    assert found.servers[0].oauth == OAuthOptions(
        client_id="me", client_secret="secret", callback_port=8123
    )
    assert found.servers[0].secrets == ("secret",)
    assert found.servers[1].oauth == OAuthOptions()
    assert "secret" not in repr(found)
    wrong = parsed({"a": {**url, "oauth": {"callbackPort": 99999}}, "b": {"oauth": oauth}})
    assert len(wrong.problems) == 2


def test_a_program_and_a_url_are_parsed():
    found = parsed(
        {
            "files": {
                "command": "npx",
                "args": ["-y", "server", "${workspaceFolder}", "${env:UNKNOWN}"],
                "env": {"TOKEN": "${env:TOKEN}"},
                "timeout": 5,
                "alwaysAllow": ["read"],
                "disabledTools": ["write"],
                "watchPaths": ["unknown fields are left alone"],
            },
            "far": {
                "type": "streamable-http",
                "url": "https://example.com/mcp",
                "headers": {"Authorization": "Bearer ${env:TOKEN}"},
            },
        }
    )
    files, far = found.servers
    assert files == ServerDefinition(
        name="files",
        command="npx",
        args=("-y", "server", "/work", "${env:UNKNOWN}"),
        env=(("TOKEN", "secret"),),
        timeout=5,
        always_allow=frozenset(["read"]),
        disabled_tools=frozenset(["write"]),
        place="npx -y server ${workspaceFolder} ${env:UNKNOWN}",
        secrets=("secret",),
    )
    assert far.transport is Transport.HTTP
    assert far.headers == (("Authorization", "Bearer secret"),)
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ({}, ""),
        ({"command": ""}, NEITHER),
        ({"args": ["x"]}, NEITHER),
        ({"command": "x", "url": "http://h/"}, "it has fields of a program and of a url"),
        ({"url": "http://h/"}, "a url needs a type"),
        ({"type": "stdio", "url": "http://h/"}, "a url needs a type"),
        ({"type": "sse", "command": "x"}, "a command needs the type stdio"),
        ({"type": "ftp", "command": "x"}, "its type must be"),
        ({"type": "sse"}, NEITHER),
        ({"type": "sse", "url": "file:///etc/passwd"}, "its url must begin with"),
        ({"type": "sse", "url": "http://"}, "its url must begin with"),
        ({"type": "sse", "url": "http://h:port/"}, "its url is invalid"),
        ({"type": "sse", "url": "http://me:pw@h/"}, "its url holds a password"),
        ({"command": "x\0"}, "a value of it has a NUL"),
        ({"command": "x", "args": ["\0"]}, "a value of it has a NUL"),
        ({"command": "x", "env": {"A": "\0"}}, "a value of it has a NUL"),
        ({"command": "x", "env": {"A=B": "c"}}, "a name in env or headers"),
        ({"command": "x", "disabledTool": ["y"]}, "it has no field 'disabledTool'; did you mean"),
        ({"command": "x", "timeout": 0}, "timeout: expected `float` >= 1"),
        ({"command": "x", "timeout": 3601}, "timeout: expected `float` <= 3600"),
        ({"command": "x", "args": "y"}, "args: expected `array`, got `str`"),
        ({"command": "x", "env": {"A": 1}}, "env[...]: expected `str`"),
        ("x", "it: expected `object`, got `str`"),
    ],
)
def test_a_bad_definition_does_not_affect_other_servers(definition: Any, reason: str):
    found = parsed({"bad": definition, "good": {"command": "x"}})
    assert [server.name for server in found.servers] == ["good"]
    reported = merged(found, []).problems
    assert [problem.server for problem in reported] == ["bad"]
    assert reported[0].text.startswith(reason)


def test_bad_names_and_malformed_files_are_reported():
    for name in ("", "  ", "two\nlines", "\x1b[31m", "x" * 65):
        assert parsed({name: {"command": "x"}}).problems, name
    no_tables = [b"", b"{", b"[]", b'{"mcpServers": []}', b'{"mcpServer": {}}', b"\xff"]
    for data in (*no_tables, b"[" * 100_000):
        found = parse(data, "user", {})
        assert (found.servers, len(found.problems)) == ((), 1), data


def test_a_project_can_only_restrict_user_servers():
    user = parsed({"mine": {"command": "x", "alwaysAllow": ["*"]}, "other": {"command": "y"}})
    project = parsed(
        {
            "mine": {"command": "evil", "alwaysAllow": ["*"], "disabledTools": ["write"]},
            "other": {"disabled": True},
            "theirs": {"command": "z", "alwaysAllow": ["*"]},
        },
        "project",
    )
    found = merged(user, [project])
    mine, other, theirs = found.servers
    assert (mine.command, mine.disabled_tools) == ("x", frozenset(["write"]))
    assert mine.allows("anything")
    assert other.disabled
    assert not theirs.allows("anything")
    assert [(each.server, each.text) for each in found.problems] == [("mine", TAKEN)]


SECRETS = """
OPENAI_API_KEY GITHUB_TOKEN clientSecret PGPASSWORD MYSQL_PASSWD AWS_CREDENTIALS NPM_CONFIG_AUTH
DB_PASS apikey
"""
NAMING = (
    {"command": "x", "args": ["--as", "a${env:NAME}"]},
    {"command": "x", "env": {"HARMLESS": "${env:NAME}"}},
    {"type": "sse", "url": "https://h/?q=${env:NAME}"},
    {"type": "sse", "url": "https://h/", "headers": {"A": "Bearer ${env:NAME}"}},
)


@pytest.mark.parametrize("name", SECRETS.split())
def test_a_project_server_that_asks_for_a_secret_is_rejected(name: str):
    for definition in NAMING:
        text = json.dumps({"mcpServers": {"bad": definition, "good": {"command": "y"}}})
        data = text.replace("NAME", name).encode()
        found = parse(data, "project", {name: "s3cret"})
        assert [server.name for server in found.servers] == ["good"], definition
        [problem] = found.problems
        assert problem.server == "bad"
        assert f"does not get {name}, which looks like a secret" in problem.text
        assert "move the definition to your own file" in problem.text
        mine = parse(data, "user", {name: "s3cret"})
        assert not mine.problems
        bad = mine.servers[0]
        assert "s3cret" in str((bad.args, bad.env, bad.url, bad.headers)), definition


@pytest.mark.parametrize("name", ["HOME", "NODE_ENV", "LC_TIME", "XDG_CACHE_HOME", "LANG"])
def test_a_project_server_gets_harmless_variables(name: str):
    data = json.dumps({"mcpServers": {"one": {"command": "x", "args": [f"${{env:{name}}}"]}}})
    found = parse(data.encode(), "project", {name: "value"})
    assert found.servers[0].args == ("value",)
    assert not found.doubts


@pytest.mark.parametrize(
    "name", ["DATABASE_URL", "SENTRY_DSN", "HTTPS_PROXY", "CREDS", "SSH_SOCK", "COMPASS"]
)
def test_other_variables_are_withheld_from_a_project_and_reported(name: str):
    data = json.dumps({"mcpServers": {"one": {"command": "x", "args": [f"a${{env:{name}}}"]}}})
    found = parse(data.encode(), "project", {name: "s3cret"})
    assert found.servers[0].args == ("a",)
    [reported] = found.doubts
    assert reported.startswith(f"The MCP server one does not get {name}, which could hold a secret")
    mine = parse(data.encode(), "user", {name: "value"})
    assert mine.servers[0].args == ("avalue",)
    assert not mine.doubts


def test_a_project_cannot_take_the_name_of_an_invalid_user_server():
    user = parsed({"tracker": {"command": 7}, "mail": {}, "good": {"command": "x"}})
    evil = {name: {"command": "evil"} for name in ("tracker", "mail", "theirs")}
    found = merged(user, [parsed(evil, "project")])
    assert [server.name for server in found.servers] == ["good", "theirs"]
    assert ("tracker", TAKEN) in [(each.server, each.text) for each in found.problems]


@pytest.mark.parametrize("data", [b"{", b'{"mcpServers":{"tracker":{"command":"true"},}}', b"[]"])
def test_an_unreadable_user_file_disables_project_servers(data: bytes):
    found = merged(parse(data, "user", {}), [parsed({"tracker": {"command": "evil"}}, "project")])
    assert found.servers == ()
    assert found.problems[-1].text == UNKNOWN


MASKED = [
    (["--token=abc"], "--token=***"),
    (["--api-key", "abc", "more"], "--api-key *** more"),
    (["-e", "GITHUB_TOKEN=abc"], "-e GITHUB_TOKEN=***"),
    (["--header", "Authorization: Bearer abc"], "--header Authorization: ***"),
    (["postgres://me:pw@host/db"], "postgres://***@host/db"),
    (["ghp_0123456789abcdef"], "***"),
    (["--token=${env:T}", "--key", "${env:K}"], "--token=${env:T} --key ${env:K}"),
    (["--port=3000", "src"], "--port=3000 src"),
    (["--author=me", "--authorization=abc"], "--author=me --authorization=***"),
]


@pytest.mark.parametrize(("args", "shown"), MASKED)
def test_the_displayed_command_masks_secrets(args: list[str], shown: str):
    [server] = parsed({"one": {"command": "x", "args": args}}).servers
    assert server.place == f"x {shown}"
    assert server.args == tuple(args)


def test_secrets_in_a_definition_are_recognised():
    definition = {
        "command": "x",
        "args": ["--token=of-the-arguments", "--dir=/home/me/project"],
        "env": {
            "API_KEY": "of-the-environment",
            "HARMLESS": "${env:TOKEN}",
            "DB": "postgres://me:of-the-url@host/db",
            "FOLDER": "/home/me/project",
            "MISSING_KEY": "${env:MISSING_KEY}",
        },
    }
    far = {"type": "sse", "url": "https://h/", "headers": {"Authorization": "Bearer of-the-header"}}
    one, two = parsed({"one": definition, "two": far}).servers
    known = {"of-the-arguments", "of-the-environment", "secret", "of-the-url"}
    assert {*one.secrets} == {*known, "me:of-the-url"}
    assert {*two.secrets} == {"Bearer of-the-header", "of-the-header"}


def test_a_relative_dot_argument_is_reported():
    definition = {"command": "npx", "args": ["-y", "server-filesystem", "."]}
    found = parsed({"one": definition, "two": {**definition, "cwd": "sub"}})
    [reported] = found.doubts
    assert "one is started in an empty folder" in reported
    assert "write ${workspaceFolder} instead" in reported
    assert not parsed({"one": definition}, "project").doubts


def test_the_first_project_file_wins():
    first = parsed({"one": {"command": "ours"}}, "project")
    second = parsed({"one": {"command": "theirs"}, "two": {"command": "theirs"}}, "project")
    found = merged(Parsed(), [first, second])
    assert [server.command for server in found.servers] == ["ours", "theirs"]


def test_the_digest_covers_only_the_start_command():
    base = {"command": "x", "args": ["a"], "env": {"A": "1"}, "cwd": "sub"}
    [server] = parsed({"one": base}).servers
    for change in ({"args": ["b"]}, {"env": {"A": "2"}}, {"cwd": "."}, {"command": "y"}):
        [other] = parsed({"one": {**base, **change}}).servers
        assert other.digest != server.digest
    [same] = parsed({"one": {**base, "timeout": 9, "alwaysAllow": ["a"]}}).servers
    assert same.digest == server.digest


@pytest.mark.parametrize(
    ("written", "user", "project"),
    [
        ("${LANG}", "C", "C"),
        ("${MINE:-none}", "yes", "none"),
        ("${UNSET:-a b}", "a b", "a b"),
        ("${EMPTY:-x}", "x", "x"),
        ("${UNSET}", "${UNSET}", ""),
        ("${input:name}", "${input:name}", "${input:name}"),
        ("${TOKEN:-x}", "secret", None),
    ],
)
def test_variables_of_other_agents_are_filled_in(written: str, user: str, project: str | None):
    data = json.dumps({"mcpServers": {"one": {"command": "x", "args": [written]}}}).encode()
    variables = {"LANG": "C", "MINE": "yes", "EMPTY": "", "TOKEN": "secret"}
    [own] = parse(data, "user", variables).servers
    assert own.args == (user,)
    theirs = parse(data, "project", variables).servers
    assert [each.args[0] for each in theirs] == ([] if project is None else [project])
