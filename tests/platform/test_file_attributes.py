"""What a new file keeps of the one it replaces."""

import os
import stat
from pathlib import Path

import pytest

from rookery.platform.descriptors import (
    ACL,
    Attributes,
    NotKept,
    attributes_of,
    keep_attributes,
    unprivileged,
    without_group,
)
from support.access_lists import DEFAULT, NOBODY, acl


def moved_over(old: Path, *, as_recorded: bool = False) -> Path:
    """A new file with what is kept of the old one."""
    new = old.with_name("new")
    with (
        old.open("rb") as before,
        open(os.open(new, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file,
    ):
        keep_attributes(file.fileno(), attributes_of(before.fileno()), as_recorded=as_recorded)
    return new


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old"
    path.write_text("old")
    path.chmod(0o640)
    return path


def test_an_access_control_list_and_the_users_attributes_are_kept(old: Path):
    os.setxattr(old, ACL, acl(user=NOBODY, may=4, mask=4))
    os.setxattr(old, "user.tag", b"red")
    new = moved_over(old)
    assert os.getxattr(new, ACL) == os.getxattr(old, ACL)
    assert os.getxattr(new, "user.tag") == b"red"
    assert stat.S_IMODE(new.stat().st_mode) == 0o640


def test_access_lists_of_the_folder_do_not_open_a_private_file(old: Path):
    """The default list of the folder would let a user write, whom the old file kept out."""
    os.setxattr(old.parent, DEFAULT, acl(user=NOBODY, may=6))
    old.chmod(0o660)
    new = moved_over(old)
    assert ACL not in os.listxattr(new)
    assert stat.S_IMODE(new.stat().st_mode) == 0o660


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (0o644, 0o644),
        (0o400, 0o400),
        (0o4755, 0o755),
        (0o6755, 0o755),
        (0o2755, 0o755),
        (0o2644, 0o2644),
        (0o1666, 0o1666),
    ],
    ids=oct,
)
def test_a_change_of_content_takes_privileges_as_a_write_does(before: int, after: int):
    assert unprivileged(before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [(0o664, 0o644), (0o640, 0o600), (0o755, 0o755), (0o604, 0o604), (0o2775, 0o2755)],
    ids=oct,
)
def test_another_group_may_do_only_what_everybody_may(before: int, after: int):
    assert without_group(before) == after


@pytest.mark.parametrize(("as_recorded", "mode"), [(False, 0o755), (True, 0o4755)])
def test_a_backup_stays_setuid_as_it_was(old: Path, as_recorded: bool, mode: int):
    old.chmod(0o4755)
    new = moved_over(old, as_recorded=as_recorded)
    assert stat.S_IMODE(new.stat().st_mode) == mode


@pytest.mark.parametrize(
    ("mode", "extended", "refused"),
    [
        (0o644, {}, False),
        (0o600, {}, False),
        (0o640, {}, True),
        (0o664, {}, True),
        (0o604, {}, True),
        (0o644, {ACL: acl(user=NOBODY, may=4)}, True),
    ],
)
def test_a_group_that_cannot_be_kept_is_refused_if_it_matters(
    tmp_path: Path, mode: int, extended: dict[str, bytes], refused: bool
):
    kept = Attributes(os.getuid(), 4711, mode, extended)
    assert _without_privileges(tmp_path / "new", kept) is refused


def test_a_user_attribute_that_does_not_fit_is_not_lost_silently(tmp_path: Path):
    kept = Attributes(os.getuid(), os.getgid(), 0o600, {"user.large": b"x" * 70_000})
    with (tmp_path / "new").open("wb") as file, pytest.raises(NotKept, match=r"user\.large"):
        keep_attributes(file.fileno(), kept)


def _without_privileges(path: Path, kept: Attributes) -> bool:
    """Whether the attributes are refused for a user who may not change owners."""
    file = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    if os.geteuid() == 0:
        os.fchown(file, NOBODY, NOBODY)
    child = os.fork()
    if child == 0:
        code = 2
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
            keep_attributes(file, kept)
            code = 0
        except NotKept:
            code = 1
        finally:
            os._exit(code)
    os.close(file)
    return bool(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1)
