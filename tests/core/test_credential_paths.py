from rookery.core.protected_paths import (
    CREDENTIAL_PLACES,
    SYSTEM_CREDENTIALS,
    credential,
    near_credentials,
)
from support.each_row import each_row

HOME = "/home/ada"
OWN = ("/home/ada/.config/rookery", "/srv/rookery")
NAMED_BY_K19 = """
.ssh .aws .config/gcloud .azure .kube .docker .gnupg .netrc .npmrc .pypirc .git-credentials
.config/gh .config/op .mozilla .config/google-chrome .local/share/keyrings .bash_history
.zsh_history
"""


@each_row("place", NAMED_BY_K19.split())
def test_a_credential_folder_in_home_covers_its_contents(place: str):
    for path in (f"{HOME}/{place}", f"{HOME}/{place}/x/y", f"/HOME/ada/{place.upper()}"):
        assert credential(path, HOME, OWN)
        assert near_credentials(path, HOME, OWN)
    assert not credential(f"{HOME}/projects/{place}", HOME, OWN)
    assert not credential(f"{HOME}/{place}-notes", HOME, OWN)


@each_row(
    "path",
    ["/etc/shadow", "/etc/sudoers.d/x", "/etc/ssh/ssh_host_rsa_key", "/run/secrets/token"]
    + [f"{folder}/a" for folder in OWN],
)
def test_system_and_rookery_credentials_are_recognized(path: str):
    assert credential(path, HOME, OWN)


@each_row(
    "path", ["/etc/passwd", "/etc/ssh/ssh_config", "/etc", HOME, f"{HOME}/.config", f"{HOME}/a.py"]
)
def test_ordinary_files_are_not_credentials(path: str):
    assert not credential(path, HOME, OWN)


@each_row(
    ("folder", "near"),
    [
        (HOME, True),
        ("/", True),
        ("/etc", True),
        ("/etc/ssh", True),
        (f"{HOME}/.config", True),
        (f"{HOME}/projects/a", False),
        ("/etc/nginx", False),
        ("/srv", True),
    ],
)
def test_a_folder_may_contain_credentials(folder: str, near: bool):
    assert near_credentials(folder, HOME, OWN) is near


def test_the_credential_lists_are_well_formed():
    assert all(not place.startswith("/") and ".." not in place for place in CREDENTIAL_PLACES)
    assert all(place.startswith("/") and "*" not in place for place in SYSTEM_CREDENTIALS)
    assert len(set(CREDENTIAL_PLACES)) == len(CREDENTIAL_PLACES)
