from typing import Any

from rookery.core.asks import Decision
from rookery.governance.scope.project_rules import opinion, read_policy
from support.each_row import each_row


def rule(prefix: Any, decision: str = "allow", **more: Any) -> dict[str, Any]:
    return {"prefix": prefix, "decision": decision, **more}


def decision(said: Any, *commands: str, redirects: bool = False) -> Decision:
    policy, faults = read_policy(said)
    assert not faults
    words = [each.split() for each in commands]
    return opinion(policy, words, redirects=redirects)[0]


GIT = {"rules": [rule(["git", ["fetch", "pull"]]), rule(["git", "push"], "deny")]}


@each_row(
    ("commands", "expected"),
    [
        (["git fetch origin"], Decision.ALLOW),
        (["git pull"], Decision.ALLOW),
        (["git status"], Decision.NONE),
        (["git"], Decision.NONE),
        (["git push"], Decision.DENY),
        (["git fetch", "git push"], Decision.DENY),
        (["git fetch", "make"], Decision.NONE),
        ([], Decision.NONE),
    ],
)
def test_prefixes_are_tokens(commands: list[str], expected: Decision):
    assert decision(GIT, *commands) is expected


def test_the_strictest_rule_decides():
    rules = {"rules": [rule(["npm"]), rule(["npm", "run"], "ask", justification="scripts")]}
    assert decision(rules, "npm run x") is Decision.ASK
    assert decision(rules, "npm test") is Decision.ALLOW


@each_row(
    ("said", "says"),
    [
        ("x", "list named rules"),
        ({"rules": {}}, "list named rules"),
        ({"rules": ["x"]}, "mapping"),
        ({"rules": [{"prefix": ["a"], "decision": "maybe"}]}, "allow, ask or deny"),
        ({"rules": [{"prefix": "a", "decision": "deny"}]}, "list of tokens"),
        ({"rules": [rule([[]])]}, "token"),
        ({"rules": [rule(["a"], match=["b"])]}, "does not match b"),
        ({"rules": [rule(["a"], not_match=["a x"])]}, "matches a x"),
        ({"rules": [rule(["a"], other=1)]}, "not a known field"),
        ({"safe": ["("]}, "safe"),
        ({"destructive": "x"}, "list of regular"),
    ],
)
def test_a_faulty_file_is_reported(said: Any, says: str):
    assert says in " ".join(read_policy(said)[1])


def test_a_rule_whose_example_fails_still_forbids_and_never_allows():
    policy, _ = read_policy({"rules": [rule(["a"], match=["b"]), rule(["c"], "deny", match=["b"])]})
    assert opinion(policy, [["a"]], redirects=False)[0] is Decision.NONE
    assert opinion(policy, [["c"]], redirects=False)[0] is Decision.DENY


def test_the_older_file_never_outweighs_a_redirection_or_a_denial():
    said = {"safe": ["^ls", "^git push"], "destructive": ["rm"], "rules": GIT["rules"]}
    assert decision(said, "ls -l") is Decision.ALLOW
    assert decision(said, "ls -l", redirects=True) is Decision.NONE
    assert decision(said, "git push") is Decision.DENY
    assert decision(said, "rm x") is Decision.ASK


def test_a_long_command_does_not_get_past_a_destructive_pattern():
    said = {"destructive": ["rm .*-rf"], "safe": ["^rm .*x$"]}
    assert decision(said, "rm -rf " + "x" * 30_000) is Decision.ASK
