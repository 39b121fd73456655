"""What the sandbox guarantees on this machine, for `doctor` and the documentation."""

import os
from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from rookery.sandbox.layers import SandboxState
from rookery.sandbox.sandbox import Sandbox

CLOSED_WHOLLY = ("x86_64", "aarch64")
"""Architectures for which `confine` knows the system calls that make sockets."""


class Holds(StrEnum):
    YES = "yes"
    PARTLY = "partly"
    NO = "no"


class Guarantee(Struct, frozen=True):
    name: str
    holds: Holds
    why: str = ""


def guarantees(sandbox: Sandbox) -> list[Guarantee]:
    """Each guarantee, whether it holds here, and what is missing if it does not fully."""
    state = sandbox.state
    if state.kind == "none":
        return list(_no_sandbox(state))
    if sandbox.open_to_all:
        found = [each for each in _by_landlock(state) if each.name != NETWORK]
        return [*found, Guarantee(NETWORK, Holds.NO, OPEN_TO_ALL)]
    if state.kind == "landlock":
        return list(_by_landlock(state))
    return list(_by_bubblewrap(state))


WRITES = "writes confined"
CREDENTIALS = "credentials hidden"
OWN = "own state hidden"
NETWORK = "network closed"
PROCESSES = "processes end with the command"
PROTECTED = "protected files read-only"
PRIVILEGES = "no new privileges"

OPEN_TO_ALL = (
    "no network namespace can be made, so commands can reach every host; commands that name "
    "an unknown host need approval"
)
_NEW_ONES = "protected files that a command creates are removed after it"


def _no_sandbox(state: SandboxState) -> Iterator[Guarantee]:
    for name in (WRITES, CREDENTIALS, OWN, NETWORK, PROTECTED, PRIVILEGES):
        yield Guarantee(name, Holds.NO, state.why)
    yield Guarantee(PROCESSES, Holds.PARTLY, "the warden ends all processes of the command")


def _by_bubblewrap(state: SandboxState) -> Iterator[Guarantee]:
    yield Guarantee(WRITES, Holds.YES)
    yield Guarantee(CREDENTIALS, Holds.YES)
    yield Guarantee(OWN, Holds.YES)
    yield _network(state, Holds.YES, "")
    yield Guarantee(PROCESSES, Holds.YES)
    yield Guarantee(PROTECTED, Holds.PARTLY, _NEW_ONES)
    if state.closes_users:
        yield Guarantee(PRIVILEGES, Holds.YES)
    else:
        why = "this bubblewrap is too old to keep commands from making user namespaces"
        yield Guarantee(PRIVILEGES, Holds.PARTLY, why)


def _by_landlock(state: SandboxState) -> Iterator[Guarantee]:
    writes = "modes, owners and times of files outside can be changed"
    if state.landlock < 3:
        writes += ", and with this kernel files outside can be truncated"
    yield Guarantee(WRITES, Holds.PARTLY, f"{writes}; the temporary folder is shared")
    sockets = "names of hidden files can be listed, and Unix sockets with a path can be reached"
    yield Guarantee(CREDENTIALS, Holds.PARTLY, sockets)
    yield Guarantee(OWN, Holds.PARTLY, "names can be listed; contents cannot be read")
    yield _network_by_landlock(state)
    yield Guarantee(PROCESSES, Holds.PARTLY, "the warden ends all processes of the command")
    why = "Landlock cannot exclude a file of the workspace; they are restored after the command"
    yield Guarantee(PROTECTED, Holds.NO, why)
    yield Guarantee(PRIVILEGES, Holds.YES)


def _network_by_landlock(state: SandboxState) -> Guarantee:
    if os.uname().machine in CLOSED_WHOLLY:
        return _network(state, Holds.YES, "connections within the machine are closed as well")
    return _network(state, Holds.PARTLY, "TCP is closed; UDP is not")


def _network(state: SandboxState, closed: Holds, why: str) -> Guarantee:
    if state.network == "on":
        return Guarantee(NETWORK, Holds.NO, "it is turned on in the settings")
    if state.network == "known":
        return Guarantee(NETWORK, Holds.YES, "Commands reach known hosts only, through a proxy.")
    return Guarantee(NETWORK, closed, why)
