"""The known hosts of a machine, and the settings that decide them."""

from pathlib import Path

import pytest

from rookery.core.hosts import HostPort, covered
from rookery.platform.http_proxy import OutOfReach, ProxyRequest
from rookery.sandbox.connections import check_addresses, upstream_for
from rookery.sandbox.known_hosts import registries, remote_host, remotes


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    return made


def knows(home: Path, host: str, environ: dict[str, str] | None = None) -> bool:
    workspace = home.parent / "work"
    name, _, port = host.partition(":")
    found = registries(home, workspace, {"PATH": "/nonexistent", **(environ or {})})
    return covered(HostPort(name, int(port)), found)


FILES = {
    ".config/pip/pip.conf": "[global]\nindex-url = https://me:pw@pip.test/simple\n",
    ".pip/pip.conf": "[global]\nextra-index-url =\n  https://a.test/x\n  https://pip.test/simple\n",
    ".npmrc": "@ours:registry=https://pip.test/\n",
    ".cargo/config.toml": '[registries.ours]\nindex = "sparse+https://pip.test/index/"\n',
    ".m2/settings.xml": "<settings><mirror><url>\nhttps://pip.test/maven</url></mirror></settings>",
    ".gemrc": ":sources:\n- https://pip.test\n",
    ".config/uv/uv.toml": '[[index]]\nurl = "https://pip.test/simple"\n',
}


def written(home: Path, path: str, text: str) -> Path:
    """A home in which nothing else is."""
    here = home / path.replace("/", "_")
    (here / path).parent.mkdir(parents=True)
    (here / path).write_text(text)
    return here


def test_a_registry_in_a_user_config_file_is_allowed(home: Path):
    for path, text in FILES.items():
        here = written(home, path, text)
        assert knows(here, "pip.test:443"), path
        assert not knows(here, "pip.test:80"), path
        assert not knows(here, "evil.test:443"), path


VARIABLES = {
    "PIP_INDEX_URL": "http://pip.test:8080/simple",
    "UV_DEFAULT_INDEX": "http://pip.test:8080/simple",
    "GOPROXY": "http://pip.test:8080,direct",
    "npm_config_registry": "http://pip.test:8080",
    "CARGO_REGISTRIES_OURS_INDEX": "sparse+http://pip.test:8080/",
}


def test_a_registry_in_the_environment_is_allowed(home: Path):
    for name, text in VARIABLES.items():
        assert knows(home, "pip.test:8080", {name: text}), name


NO_REGISTRIES = {
    ".npmrc": "proxy=http://pip.test:8080\n# registry=https://pip.test\nhttps-proxy=https://pip.test",
    ".m2/settings.xml": '<settings xmlns="https://pip.test/SETTINGS/1.0.0"/>',
    ".config/pip/pip.conf": "[global]\nproxy = https://pip.test\n",
}


def test_other_urls_in_config_files_are_not_allowed(home: Path):
    for path, text in NO_REGISTRIES.items():
        here = written(home, path, text)
        assert not knows(here, "pip.test:443"), path
        assert not knows(here, "pip.test:8080"), path


def test_registries_in_workspace_files_are_not_allowed(home: Path):
    work = home.parent / "work"
    work.mkdir()
    (work / "pip.conf").write_text("[global]\nindex-url = https://evil.test/simple\n")
    (home / ".npmrc").symlink_to(work / "pip.conf")
    assert not knows(home, "evil.test:443", {"PIP_CONFIG_FILE": str(work / "pip.conf")})


def test_the_default_registry_of_an_installed_tool_is_allowed(home: Path):
    programs = home / "bin"
    programs.mkdir()
    (programs / "cargo").write_text("#!/bin/sh\n")
    (programs / "cargo").chmod(0o755)
    assert knows(home, "index.crates.io:443", {"PATH": str(programs)})
    assert not knows(home, "registry.npmjs.org:443", {"PATH": str(programs)})


REMOTES = (
    ("https://me:pw@forge.test/a.git", "forge.test", (443,)),
    ("http://forge.test:8080/a.git", "forge.test", (8080,)),
    ("ssh://git@forge.test:2222/a", "forge.test", (2222,)),
    ("git@forge.test:a/b.git", "forge.test", (22, 443)),
    ("forge.test:a/b.git", "forge.test", (22, 443)),
)


def test_the_host_is_read_from_a_git_remote_url():
    for address, name, ports in REMOTES:
        found = remote_host(address)
        assert found, address
        assert (found.name, found.ports) == (name, ports), address
    for address in ("/srv/a.git", "../a", "file:///srv/a", "http://localhost/a"):
        assert remote_host(address) is None, address


def test_remotes_and_submodules_are_read_from_git_config():
    config = (
        '[core]\n\turl = https://no.test/\n[remote "origin"]\n\turl = https://a.test/x\n'
        '\tpushurl = git@b.test:x\n[submodule "s"]\n\turl = https://c.test/y\n'
        "[include]\n\turl = https://d.test\n"
    )
    found = remotes(config)
    assert found.names == ("origin", "s")
    assert [each.name for each in found.hosts] == ["a.test", "b.test", "c.test"]


ADDRESSES = (
    ("93.184.215.14", False, True),
    ("10.1.2.3", False, False),
    ("10.1.2.3", True, True),
    ("127.0.0.1", False, False),
    ("127.0.0.1", True, False),
    ("169.254.169.254", True, False),
    ("::ffff:127.0.0.1", True, False),
    ("::1", True, False),
    ("fd00::1", False, False),
    ("fd00::1", True, True),
    ("0.0.0.0", True, False),
)


@pytest.mark.parametrize(("address", "private", "fits"), ADDRESSES)
def test_private_addresses_of_a_host_are_checked(address: str, private: bool, fits: bool):
    try:
        check_addresses(HostPort("a.test", 443), ["93.184.215.14", address], private=private)
    except OutOfReach:
        assert not fits
    else:
        assert fits


def test_an_unsupported_proxy_is_not_bypassed():
    request = ProxyRequest("CONNECT", "a.test", 443, "", [])
    with pytest.raises(OutOfReach, match="socks5"):
        upstream_for(request, {"ALL_PROXY": "socks5://127.0.0.1:1080"})
    assert upstream_for(request, {"HTTP_PROXY": "http://127.0.0.1:1"}) is None
    assert upstream_for(request, {"https_proxy": "127.0.0.1:8"}) is not None
    excepted = {"https_proxy": "http://127.0.0.1:8", "NO_PROXY": "b.test, .test"}
    assert upstream_for(request, excepted) is None
