"""What configuration files may say, and what they may not."""

import json
from typing import Any

import pytest

from rookery.mcp.config import (
    NEITHER,
    TAKEN,
    UNKNOWN,
    Parsed,
    ServerDefinition,
    Transport,
    merged,
    parse,
)

VARIABLES = {"TOKEN": "secret", "workspaceFolder": "/work"}


def parsed(servers: Any, source: Any = "user") -> Parsed:
    return parse(json.dumps({"mcpServers": servers}).encode(), source, VARIABLES)


def test_a_program_and_a_url():
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
        ({"command": "x", "disabledTool": ["y"]}, "it has no field 'disabledTool'; did you mean"),
        ({"command": "x", "timeout": 0}, "timeout: expected `float` >= 1"),
        ({"command": "x", "timeout": 3601}, "timeout: expected `float` <= 3600"),
        ({"command": "x", "args": "y"}, "args: expected `array`, got `str`"),
        ({"command": "x", "env": {"A": 1}}, "env[...]: expected `str`"),
        ("x", "it: expected `object`, got `str`"),
    ],
)
def test_a_bad_definition_costs_only_itself(definition: Any, reason: str):
    found = parsed({"bad": definition, "good": {"command": "x"}})
    assert [server.name for server in found.servers] == ["good"]
    told = merged(found, []).problems
    assert [problem.server for problem in told] == ["bad"]
    assert told[0].text.startswith(reason)


@pytest.mark.parametrize("name", ["", "  ", "two\nlines", "\x1b[31m", "x" * 65])
def test_a_name_is_one_short_line(name: str):
    assert parsed({name: {"command": "x"}}).problems


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"mcpServers": []}', b'{"mcpServer": {}}', b"\xff", b"[" * 100_000]
)
def test_a_file_that_is_no_table_is_one_problem(data: bytes):
    found = parse(data, "user", {})
    assert not found.servers
    assert len(found.problems) == 1


def test_a_project_only_tightens_what_is_the_users():
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


SECRETS = [
    "OPENAI_API_KEY",
    "GITHUB_TOKEN",
    "clientSecret",
    "PGPASSWORD",
    "MYSQL_PASSWD",
    "AWS_CREDENTIALS",
    "NPM_CONFIG_AUTH",
    "DB_PASS",
    "apikey",
]


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize(
    "definition",
    [
        {"command": "x", "args": ["--as", "a${env:NAME}"]},
        {"command": "x", "env": {"HARMLESS": "${env:NAME}"}},
        {"type": "sse", "url": "https://h/?q=${env:NAME}"},
        {"type": "sse", "url": "https://h/", "headers": {"A": "Bearer ${env:NAME}"}},
    ],
    ids=["args", "env", "url", "headers"],
)
def test_a_project_is_given_no_secret(definition: Any, name: str):
    text = json.dumps({"mcpServers": {"bad": definition, "good": {"command": "y"}}})
    data = text.replace("NAME", name).encode()
    found = parse(data, "project", {name: "s3cret"})
    assert [server.name for server in found.servers] == ["good"]
    [problem] = found.problems
    assert problem.server == "bad"
    assert f"does not get {name}, which looks like a secret" in problem.text
    assert "move the definition to your own file" in problem.text
    mine = parse(data, "user", {name: "s3cret"})
    assert not mine.problems
    bad = mine.servers[0]
    assert "s3cret" in str((bad.args, bad.env, bad.url, bad.headers))


@pytest.mark.parametrize("name", ["HOME", "NODE_ENV", "LC_TIME", "XDG_CACHE_HOME", "LANG"])
def test_a_project_is_given_what_is_no_secret(name: str):
    data = json.dumps({"mcpServers": {"one": {"command": "x", "args": [f"${{env:{name}}}"]}}})
    found = parse(data.encode(), "project", {name: "value"})
    assert found.servers[0].args == ("value",)
    assert not found.doubts


@pytest.mark.parametrize(
    "name", ["DATABASE_URL", "SENTRY_DSN", "HTTPS_PROXY", "CREDS", "SSH_SOCK", "COMPASS"]
)
def test_of_other_variables_a_project_gets_nothing_and_it_is_told(name: str):
    data = json.dumps({"mcpServers": {"one": {"command": "x", "args": [f"a${{env:{name}}}"]}}})
    found = parse(data.encode(), "project", {name: "s3cret"})
    assert found.servers[0].args == ("a",)
    [told] = found.doubts
    assert told.startswith(f"The MCP server one does not get {name}, which could hold a secret")
    mine = parse(data.encode(), "user", {name: "value"})
    assert mine.servers[0].args == ("avalue",)
    assert not mine.doubts


def test_a_name_of_the_users_stays_theirs_while_its_definition_is_wrong():
    user = parsed({"tracker": {"command": 7}, "mail": {}, "good": {"command": "x"}})
    evil = {name: {"command": "evil"} for name in ("tracker", "mail", "theirs")}
    found = merged(user, [parsed(evil, "project")])
    assert [server.name for server in found.servers] == ["good", "theirs"]
    assert ("tracker", TAKEN) in [(each.server, each.text) for each in found.problems]


@pytest.mark.parametrize("data", [b"{", b'{"mcpServers":{"tracker":{"command":"true"},}}', b"[]"])
def test_while_the_users_file_cannot_be_read_no_project_has_a_server(data: bytes):
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
def test_what_is_shown_of_a_server_holds_no_secret(args: list[str], shown: str):
    [server] = parsed({"one": {"command": "x", "args": args}}).servers
    assert server.place == f"x {shown}"
    assert server.args == tuple(args)


def test_what_a_server_is_given_to_keep_is_known():
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


def test_a_dot_that_is_not_the_workspace_is_told():
    definition = {"command": "npx", "args": ["-y", "server-filesystem", "."]}
    found = parsed({"one": definition, "two": {**definition, "cwd": "sub"}})
    [told] = found.doubts
    assert "one is started in an empty folder" in told
    assert "write ${workspaceFolder} instead" in told
    assert not parsed({"one": definition}, "project").doubts


def test_of_two_project_files_the_first_wins():
    first = parsed({"one": {"command": "ours"}}, "project")
    second = parsed({"one": {"command": "theirs"}, "two": {"command": "theirs"}}, "project")
    found = merged(Parsed(), [first, second])
    assert [server.command for server in found.servers] == ["ours", "theirs"]


def test_the_digest_covers_what_is_started_and_nothing_else():
    base = {"command": "x", "args": ["a"], "env": {"A": "1"}, "cwd": "sub"}
    [server] = parsed({"one": base}).servers
    for change in ({"args": ["b"]}, {"env": {"A": "2"}}, {"cwd": "."}, {"command": "y"}):
        [other] = parsed({"one": {**base, **change}}).servers
        assert other.digest != server.digest
    [same] = parsed({"one": {**base, "timeout": 9, "alwaysAllow": ["a"]}}).servers
    assert same.digest == server.digest
