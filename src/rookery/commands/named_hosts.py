"""The hosts that a command line names, so that a person can be asked about them before it runs.

This is a convenience where a proxy decides about every connection. Where there is none, it is all
there is: so there every program counts that reaches whatever host it is told.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from rookery.commands.changers import NETWORK_PROGRAMS
from rookery.commands.wrappers import program_name
from rookery.core.hosts import Host, host

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://([^\s/?#'\"<>\\]+)", re.IGNORECASE)
_PORTS = {"http": 80, "ws": 80, "ssh": 22, "git": 9418, "ftp": 21}
_ANYWHERE = """
    aria2c curl dig ftp git-remote-https host http https httpie lftp nc ncat netcat nslookup openssl
    ping ping6 rsync scp sftp socat ssh telnet tracepath traceroute wget whois xh
"""
REACHES_ANYWHERE = frozenset(_ANYWHERE.split())
"""Programs that reach whatever host they are told, in more ways than can be read from words."""
_GIT_NETWORK = {"clone", "fetch", "ls-remote", "pull", "push", "remote", "submodule"}
_PROGRAMS = {*NETWORK_PROGRAMS, *REACHES_ANYWHERE, "git"}


def named_hosts(
    commands: Iterable[Sequence[str]], *, by_any_program: bool = False
) -> tuple[Host, ...]:
    """Hosts in URLs that are given to programs which use the network, or to any program at all.
    This machine is none."""
    found = (
        named
        for words in commands
        if words and (by_any_program or program_name(words[0]) in _PROGRAMS)
        for named in _in_urls(words)
    )
    return tuple(dict.fromkeys(each for each in found if not each.is_loopback))


def reaches_unnamed(commands: Iterable[Sequence[str]], remotes: Iterable[str]) -> str:
    """A program in the line that reaches a host which no URL names; empty if there is none.
    `remotes` are the names of a repository's own."""
    known = {*remotes}
    for words in commands:
        name = program_name(words[0]) if words else ""
        if name in REACHES_ANYWHERE and not any(_in_urls(words)):
            return name
        if name == "git" and _leaves(words[1:], known):
            return f"git {_subcommand(words[1:])}"
    return ""


def _in_urls(words: Sequence[str]) -> Iterator[Host]:
    for word in words:
        for scheme, authority in _URL.findall(word):
            name, port = _split(authority.rpartition("@")[2])
            usual = _PORTS.get(scheme.lower().rpartition("+")[2], 443)
            if found := host(name, int(port) if port else usual):
                yield found


def _split(place: str) -> tuple[str, str]:
    name, colon, port = place.rpartition(":")
    return (name, port) if colon and port.isdecimal() else (place, "")


def _subcommand(words: Sequence[str]) -> str:
    return next((word for word in words if word in _GIT_NETWORK), "")


def _leaves(words: Sequence[str], remotes: set[str]) -> bool:
    """Whether git would reach something that is neither named by a URL nor a remote."""
    command = _subcommand(words)
    if not command or any(_in_urls(words)):
        return False
    after = list(words[list(words).index(command) + 1 :])
    operands = [word for word in after if not word.startswith("-")]
    if command == "remote":
        return operands[:1] == ["update"] and not remotes
    if command == "submodule":
        return operands[:1] in (["add"], ["update"])
    return bool(operands) and operands[0] not in remotes
