"""Rules for one run in the words of other agents."""

import pytest

from rookery.app.run_tools import tools_of_run
from rookery.core.settings import Settings
from rookery.errors import SettingsError
from support.each_row import each_row

ALLOWED = {
    "Bash(pytest:*) Edit": (("pytest",), True, set[tuple[str, ...]]()),
    "Bash(npm run test *),Read": (("npm run test",), False, set[tuple[str, ...]]()),
    "Bash(npm test)": ((), False, {("npm", "test")}),
    "Bash": (("*",), False, set[tuple[str, ...]]()),
    "Read(src/**) Grep": ((), False, set[tuple[str, ...]]()),
}


@each_row("rules", ALLOWED)
def test_allowed_tools_become_our_rules(rules: str):
    allow, edits, exactly = ALLOWED[rules]
    settings, commands, denied = tools_of_run(Settings(), [rules], [])
    assert (settings.commands.allow, settings.approve_edits, commands) == (allow, edits, exactly)
    assert denied == set()


def test_disallowed_tools_are_denied():
    settings, _, denied = tools_of_run(Settings(), [], ["Bash(git push:*) Write", "read_file"])
    assert settings.commands.deny == ("git push",)
    assert denied == {"Write", "read_file"}


REFUSED = {
    "Edit(src/**)": "cannot be allowed by path",
    "Bash(rm -rf $HOME:*)": "it needs a shell",
    "Bash(a && b)": "more than one command",
    "Bash(./x:*)": "named by its path",
    "mcp__files__read": "alwaysAllow in mcp.json",
    "WebFetch(domain:x.org)": "cannot be allowed by a flag",
    "Bash(pytest:*": "takes rules",
    "Everything!": "takes rules",
}


@each_row("rules", REFUSED)
def test_what_cannot_be_kept_is_refused(rules: str):
    with pytest.raises(SettingsError, match=REFUSED[rules].replace(".", "[.]")):
        tools_of_run(Settings(), [rules], [])
    with pytest.raises(SettingsError, match="No such tool"):
        tools_of_run(Settings(), [], ["Nonsense"])
