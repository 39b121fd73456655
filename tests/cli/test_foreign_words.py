"""Flags and commands of other agents: what each becomes here."""

import re

import click
import pytest

from rookery.cli.foreign_words import ALIASES, FLAGS, meant_command, translated
from rookery.cli.main import _SUBCOMMANDS, run, task
from support.each_row import each_row

OURS = {flag for each in task.params if isinstance(each, click.Option) for flag in each.opts}


@each_row("flag", FLAGS)
def test_the_answer_to_a_foreign_flag_names_what_exists(flag: str):
    answer = FLAGS[flag]
    assert flag not in OURS
    commands = re.findall(r"rookery ([a-z]+)", answer)
    assert set(commands) <= set(_SUBCOMMANDS)
    if not commands:
        assert set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", answer)) <= OURS
    assert not re.search(r"(?<!\S)(-y|--yes|approve)\b", answer)


def test_a_foreign_flag_is_answered_in_one_sentence(capsys: pytest.CaptureFixture[str]):
    assert run(["-p", "go", "--cd", "src"]) == 2
    assert capsys.readouterr().err == "Error: rookery has no --cd. Use -w FOLDER.\n"


def test_values_of_another_sandbox_flag_are_answered(capsys: pytest.CaptureFixture[str]):
    assert run(["-p", "go", "--sandbox", "workspace-write"]) == 2
    assert "commands write only in the workspace" in capsys.readouterr().err


@each_row(
    ("line", "ours"),
    [
        ("login", "auth"),
        ("login openai", "auth openai"),
        ("logout openai", "auth logout openai"),
        ("version", "--version"),
        ("update", "upgrade"),
        ("update the docs", "update the docs"),
        ("resume", "--resume"),
        ("resume 38e5 -m x", "--resume 38e5 -m x"),
        ("resume the work", "resume the work"),
        ("continue", "--continue"),
        ("continue with the tests", "continue with the tests"),
        ("init", "/init"),
        ("init a repository", "init a repository"),
        ("run fix -m x", "--print fix -m x"),
        ("run the tests", "run the tests"),
        ("exec --json fix", "--print --json fix"),
        ("chat", ""),
        ("chat -m x", "-m x"),
        ("chat with the server", "chat with the server"),
        ("explain", "explain"),
    ],
)
def test_commands_of_other_agents_work_unless_they_begin_a_sentence(line: str, ours: str):
    assert list(translated(line.split(), task)) == ours.split()


def test_no_alias_hides_a_command_of_ours():
    assert not ALIASES.keys() & _SUBCOMMANDS.keys()


@each_row(
    ("word", "meant"),
    [
        *(("list", "list"), ("Lst", "list"), ("undo", "rewind"), ("logout", "auth logout")),
        *(("stauts", "auth status"), ("lgoin", "auth"), ("plan", "--permission-mode plan")),
        *(("cost", "sessions costs"), ("usage", "sessions costs"), ("mode", "modes")),
        *(("fix", ""), ("hello", ""), ("explain", ""), ("tests", ""), ("task", "")),
    ],
)
def test_what_a_single_word_means(word: str, meant: str):
    assert meant_command(word, list(_SUBCOMMANDS)) == meant


@pytest.mark.parametrize("word", ["compact", "Diff"])
def test_a_slash_command_without_its_slash_is_not_sent_to_a_model(
    word: str, capsys: pytest.CaptureFixture[str]
):
    assert run([word]) == run(["-p", word]) == 2
    assert f"/{word.lower()} works only in an open session" in capsys.readouterr().err
