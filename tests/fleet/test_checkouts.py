"""Addresses of repositories, and what is said about lost changes."""

import os
from pathlib import Path

import pytest

from rookery.core.facts import Change, TaskOpened, ToolFinished, ToolStarted
from rookery.errors import SettingsError
from rookery.fleet.checkouts import (
    HIDDEN,
    LOCAL,
    PROTOCOLS,
    CheckoutFailed,
    SessionCheckout,
    check_name,
    check_remote,
    without_secret,
)
from rookery.fleet.session_life import lost_changes
from support.journal_writer import numbered
from support.repositories import git


@pytest.mark.parametrize(
    "url",
    [
        "https://me:secret@host/x.git",
        "ssh://me:secret@host/x",
        "https://secret@host/x.git",
        "https://secret:@host/x.git",
    ],
)
def test_an_address_with_a_secret_is_refused_without_repeating_it(url: str):
    with pytest.raises(SettingsError, match="contains a password or a token") as refused:
        check_remote(url)
    assert "secret" not in str(refused.value)


def test_an_address_with_a_query_is_refused():
    with pytest.raises(SettingsError, match="query or a fragment"):
        check_remote("https://host/x.git?access_token=secret")


@pytest.mark.parametrize(
    "url",
    [
        "--upload-pack=touch x",
        "a\nb",
        "ext::sh -c touch% x",
        "fd::17",
        "http://secret@host/x.git",
        "git://host/x.git",
        "ftp://host/x.git",
    ],
)
def test_an_address_that_is_an_option_or_another_protocol_is_refused(url: str):
    with pytest.raises(SettingsError, match="is not the address") as refused:
        check_remote(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    ["https://host/x.git", "git@host:x.git", "ssh://git@host/x.git", "/srv/x.git", "file:///x.git"],
)
def test_other_addresses_are_accepted(url: str):
    check_remote(url)


def test_what_git_says_is_kept_without_the_secrets_of_addresses():
    said = "fatal: unable to access 'https://x:secret@host/y.git/': no"
    assert without_secret(said) == "fatal: unable to access 'https://host/y.git/': no"


def test_a_local_repository_is_refused_unless_the_worker_accepts_it(tmp_path: Path, remote: Path):
    for url in (str(remote), f"file://{remote}"):
        one = SessionCheckout(tmp_path / "a", url, "s1", PROTOCOLS)
        with pytest.raises(CheckoutFailed, match="not allowed"):
            one.prepare("main", None)


def test_a_failure_says_what_git_and_the_remote_say(tmp_path: Path, remote: Path):
    with pytest.raises(CheckoutFailed, match="does not appear to be a git repository") as failed:
        checkout(tmp_path / "a", tmp_path / "nowhere").prepare("main", None)
    assert "access rights" not in str(failed.value)
    one = checkout(tmp_path / "a", remote)
    one.prepare("main", None)
    hook = remote / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho Not on Fridays. >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(CheckoutFailed, match=r"Not on Fridays.*pre-receive hook declined"):
        one.save(1, 1)


@pytest.mark.parametrize("name", ["../x", "-b", "a:b", "/a", "a..b", "a b", "a/", "", "x.lock"])
def test_names_that_lead_elsewhere_are_refused(name: str):
    with pytest.raises(SettingsError, match="not a valid name"):
        check_name(name)


@pytest.mark.parametrize("name", ["main", "feature/x-1", "v1.2", "6d0a5a4c-7c07"])
def test_names_of_branches_and_sessions_are_accepted(name: str):
    check_name(name)


def checkout(folder: Path, remote: Path) -> SessionCheckout:
    return SessionCheckout(folder, str(remote), "s1", LOCAL)


def test_a_checkpoint_that_was_pushed_and_not_recorded_does_not_displace_the_one_before(
    tmp_path: Path, remote: Path
):
    first = checkout(tmp_path / "a", remote)
    first.prepare("main", None)
    saved = []
    for number in (1, 2, 3):
        (first.folder / "new.txt").write_text(f"{number}\n")
        saved.append(first.save(number, 1))
    refs = git(remote, "for-each-ref", "--format=%(refname)", HIDDEN).split()
    assert refs == [each.ref for each in saved[1:]]
    other = checkout(tmp_path / "b", remote)
    other.prepare("main", saved[1])
    assert (other.folder / "new.txt").read_text() == "2\n"
    assert git(other.folder, "status", "--porcelain").split() == ["??", "new.txt"]


def test_the_files_of_repositories_inside_the_clone_are_pushed(tmp_path: Path, remote: Path):
    one = checkout(tmp_path / "a", remote)
    one.prepare("main", None)
    inner, fresh = one.folder / "vendor" / "in ner", one.folder / "vendor" / "in ner" / "fresh"
    for folder in (inner, fresh, one.folder / "empty"):
        folder.mkdir(parents=True)
        git(folder, "init", "--quiet")
    for folder in (inner, fresh):
        (folder / "file.txt").write_text("mine\n")
    git(inner, "add", "file.txt")
    git(inner, "commit", "--quiet", "-m", "Inner")
    one.save(1, 1)
    (inner / "file.txt").write_text("changed\n")
    saved = one.save(2, 1)
    names = git(remote, "ls-tree", "-r", "--name-only", saved.commit).splitlines()
    assert names == ["readme.txt", "vendor/in ner/file.txt", "vendor/in ner/fresh/file.txt"]
    other = checkout(tmp_path / "b", remote)
    other.prepare("main", saved)
    assert (other.folder / "vendor" / "in ner" / "file.txt").read_text() == "changed\n"


def test_what_killed_git_processes_left_in_the_cache_does_not_stop_the_next_session(
    tmp_path: Path, remote: Path
):
    one = checkout(tmp_path / "a", remote)
    one.prepare("main", None)
    [cache] = (tmp_path / "a" / "cache").glob("*.git")
    git(cache, "update-ref", "-d", "refs/heads/main")
    stale = cache / "refs" / "heads" / "main.lock"
    stale.touch()
    os.utime(stale, (0, 0))
    (cache / "config").unlink()
    one.prepare("main", None)
    assert (one.folder / "readme.txt").exists()


def test_unchanged_files_are_not_pushed_again_and_a_removed_clone_leaves_no_refs(
    tmp_path: Path, remote: Path
):
    one = checkout(tmp_path / "a", remote)
    one.prepare("main", None)
    saved = one.save(1, 1)
    again = one.save(5, 1)
    assert (again.seq, again.commit, again.ref) == (5, saved.commit, saved.ref)
    one.remove()
    assert not one.folder.exists()
    [cache] = (tmp_path / "a" / "cache").glob("*.git")
    assert git(cache, "for-each-ref", "--format=%(refname)", "refs/rookery") == ""


def test_changes_after_the_checkpoint_are_named_and_those_before_are_not():
    changing = ToolStarted(call_id="a", tool="t", title="t", changes=(Change(path="a.txt"),))
    running = ToolStarted(call_id="b", tool="t", title="t", command="make")
    reading = ToolStarted(call_id="c", tool="t", title="t")
    ended = [ToolFinished(call_id=each, text="") for each in "abc"]
    facts = [TaskOpened(text="Go"), changing, ended[0], running, ended[1], reading, ended[2]]
    events = numbered(facts)
    both = lost_changes(events, 1)
    assert "changes to a.txt" in both
    assert "make" in both
    assert "a.txt" not in lost_changes(events, 3)
    assert lost_changes(events, 5) == ""
