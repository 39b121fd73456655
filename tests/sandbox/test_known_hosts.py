"""Which hosts are known on a machine, and who has a say in that."""

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


@pytest.mark.parametrize("path", FILES)
def test_a_registry_in_a_file_of_the_user_is_known(path: str, home: Path):
    (home / path).parent.mkdir(parents=True, exist_ok=True)
    (home / path).write_text(FILES[path])
    assert knows(home, "pip.test:443")
    assert not knows(home, "pip.test:80")
    assert not knows(home, "evil.test:443")


VARIABLES = {
    "PIP_INDEX_URL": "http://pip.test:8080/simple",
    "UV_DEFAULT_INDEX": "http://pip.test:8080/simple",
    "GOPROXY": "http://pip.test:8080,direct",
    "npm_config_registry": "http://pip.test:8080",
    "CARGO_REGISTRIES_OURS_INDEX": "sparse+http://pip.test:8080/",
}


@pytest.mark.parametrize("name", VARIABLES)
def test_a_registry_in_the_environment_is_known(name: str, home: Path):
    assert knows(home, "pip.test:8080", {name: VARIABLES[name]})


NO_REGISTRIES = {
    ".npmrc": "proxy=http://pip.test:8080\n# registry=https://pip.test\nhttps-proxy=https://pip.test",
    ".m2/settings.xml": '<settings xmlns="https://pip.test/SETTINGS/1.0.0"/>',
    ".config/pip/pip.conf": "[global]\nproxy = https://pip.test\n",
}


@pytest.mark.parametrize("path", NO_REGISTRIES)
def test_what_is_no_registry_is_not_known(path: str, home: Path):
    (home / path).parent.mkdir(parents=True, exist_ok=True)
    (home / path).write_text(NO_REGISTRIES[path])
    assert not knows(home, "pip.test:443")
    assert not knows(home, "pip.test:8080")


def test_a_file_in_the_workspace_has_no_say(home: Path):
    work = home.parent / "work"
    work.mkdir()
    (work / "pip.conf").write_text("[global]\nindex-url = https://evil.test/simple\n")
    (home / ".npmrc").symlink_to(work / "pip.conf")
    assert not knows(home, "evil.test:443", {"PIP_CONFIG_FILE": str(work / "pip.conf")})


def test_the_usual_registry_of_a_tool_is_known_if_it_is_installed(home: Path):
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


@pytest.mark.parametrize(("address", "name", "ports"), REMOTES)
def test_the_host_of_a_remote(address: str, name: str, ports: tuple[int, ...]):
    found = remote_host(address)
    assert found
    assert (found.name, found.ports) == (name, ports)


@pytest.mark.parametrize("address", ["/srv/a.git", "../a", "file:///srv/a", "http://localhost/a"])
def test_a_folder_is_no_host(address: str):
    assert remote_host(address) is None


def test_remotes_and_submodules_are_read_from_git_s_configuration():
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
def test_where_a_name_may_lead(address: str, private: bool, fits: bool):
    try:
        check_addresses(HostPort("a.test", 443), ["93.184.215.14", address], private=private)
    except OutOfReach:
        assert not fits
    else:
        assert fits


def test_a_proxy_that_is_not_understood_is_not_gone_around():
    request = ProxyRequest("CONNECT", "a.test", 443, "", [])
    with pytest.raises(OutOfReach, match="socks5"):
        upstream_for(request, {"ALL_PROXY": "socks5://127.0.0.1:1080"})
    assert upstream_for(request, {"HTTP_PROXY": "http://127.0.0.1:1"}) is None
    assert upstream_for(request, {"https_proxy": "127.0.0.1:8"}) is not None
    excepted = {"https_proxy": "http://127.0.0.1:8", "NO_PROXY": "b.test, .test"}
    assert upstream_for(request, excepted) is None
