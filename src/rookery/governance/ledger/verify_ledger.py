#!/usr/bin/env python3
"""Checks a ledger of agent traces: `python3 verify_ledger.py [--head heads.json] PATH`.

This one file needs nothing but Python, so that an auditor can run it without the product; the
product itself verifies with the functions below. Only `main` and what stands after it touch
files. PATH is an `.orchestration` folder or a ledger file. Exit codes: 0 for a whole, untouched
ledger, 1 for findings, 2 for a wrong call.

Every record carries the SHA-256 of its own canonical JSON and that of the record before it in
the same stream; the first record of a stream names the tips of all others. Lines may stand in
any order: `seq` decides. What a chain cannot show, that its end was cut off, is found by a head
that is known from elsewhere (`--head`, `--expect`).
"""

import hmac
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple, NoReturn

PREFIX = "sha256:"
LARGEST_INTEGER = 2**53 - 1
LONGEST_LINE = 16 * 1024 * 1024
"""Bytes above which a line is not read: no writer makes such, and memory has an end."""
MARK = 16
"""Bytes kept of a record's hash. They are compared where a record comes twice or is referred to."""
WAITING = 100_000
"""Records of one stream that may come before their turn."""
SHOWN = 1_000
"""Findings that are kept; of those after them only the number is."""
BACKWARDS = 300
"""Seconds by which clocks may go back inside a stream."""
NO_BYTES = bytes(32)
"""What the digest of a file begins with."""
UNSIGNED = "from another machine, from before records were signed, or forged"
CLAIM = (
    "Shows that records were not altered or removed since the known head; it cannot show that "
    "nothing happened outside governed tools."
)

Tip = tuple[str, int, str]
"""A record by its stream, its place there and its hash."""


def canonical(value: object) -> bytes:
    """The one way to write a value (RFC 8785, within the limits below).

    Raises ValueError for what has no such form here: numbers with a fraction or beyond 2^53 - 1,
    keys that are not ASCII, and text that is not Unicode.
    """
    _check(value)
    return _encoded(value)


def leaf_hash(record: dict[str, Any]) -> str:
    """The hash of a record, computed without the `hash` it carries (RFC 6962, a leaf)."""
    own = record["metadata"]["orchestration"]
    bare = {name: value for name, value in own.items() if name != "hash"}
    whole = {**record, "metadata": {**record["metadata"], "orchestration": bare}}
    return PREFIX + sha256(b"\0" + canonical(whole)).hexdigest()


def key_id(key: bytes) -> str:
    """The name of a signing key, which gives nothing of it away."""
    return sha256(b"trace key\0" + key).hexdigest()[:16]


def signature(key: bytes, record: bytes) -> str:
    """Of a record in canonical form, without its `hash` and its `mac`."""
    return f"{key_id(key)}:{hmac.digest(key, record, 'sha256').hex()}"


def state_id(tips: Iterable[Tip]) -> str:
    """One value for a whole ledger."""
    named = [{"hash": mark, "seq": seq, "stream": stream} for stream, seq, mark in sorted(tips)]
    return PREFIX + sha256(b"\2" + canonical(named)).hexdigest()


def digest_after(digest: bytes, line: bytes) -> bytes:
    """What a file's lines so far amount to, after one more: it tells their bytes and order."""
    return sha256(digest + line).digest()


class MerkleTree:
    """The root of RFC 6962 over leaves that come one by one. It grows with their logarithm."""

    def __init__(self, peaks: Iterable[tuple[int, bytes]] = ()) -> None:
        self._peaks = list(peaks)

    def add(self, leaf: bytes) -> None:
        size, node = 1, leaf
        while self._peaks and self._peaks[-1][0] == size:
            node = sha256(b"\1" + self._peaks.pop()[1] + node).digest()
            size *= 2
        self._peaks.append((size, node))

    @property
    def peaks(self) -> list[tuple[int, bytes]]:
        """All there is to go on from, largest first."""
        return list(self._peaks)

    @property
    def root(self) -> str:
        if not self._peaks:
            return sha256(b"").hexdigest()
        node = self._peaks[-1][1]
        for _, left in reversed(self._peaks[:-1]):
            node = sha256(b"\1" + left + node).digest()
        return node.hex()


LARGEST_UNPACKED = 256 * 1024 * 1024
LARGEST_PLAIN = 4 * 1024 * 1024 * 1024
"""Bytes of one file of a ledger, which is sealed long before."""


class KnownHead(NamedTuple):
    """What is known of a ledger: all tips that were ever seen, and how the active file was left:
    how far it reached, the digest of its lines up to there, and the state the ledger had."""

    tips: tuple[Tip, ...]
    records: int
    size: int = -1
    digest: str = ""
    state: str = ""


class Remark(NamedTuple):
    level: str
    """FAIL, WARN or INFO."""
    code: str
    text: str
    file: str = ""
    line: int = 0
    detail: str = ""

    @property
    def breaks(self) -> bool:
        """Whether the ledger can no longer be called whole and untouched."""
        return self.level == "FAIL" or self.code in _BREAKING

    @property
    def place(self) -> str:
        return f"{self.file} line {self.line}: " if self.line else ""


_BREAKING = frozenset({"known-head", "torn-tail", "pruned-by-others"})


class Report(NamedTuple):
    files: int
    records: int
    streams: int
    broken_streams: int
    tips: tuple[Tip, ...]
    seals: int
    known: str
    """What was known of the head, in words; empty if nothing was."""
    findings: tuple[Remark, ...]
    untold: int
    """Failures beyond those that were kept."""
    unchained: dict[str, int]
    """Records without a chain, by the tool that wrote them."""
    kinds: dict[str, int]
    signed: int | None = None
    """Records whose signature was checked and holds; None if there was no key to check with."""

    @property
    def state(self) -> str:
        return state_id(self.tips)

    @property
    def failures(self) -> int:
        return self.untold + sum(finding.level == "FAIL" for finding in self.findings)

    @property
    def whole(self) -> bool:
        return not self.untold and not any(finding.breaks for finding in self.findings)


class Site(NamedTuple):
    file: str
    line: int
    detail: str = ""


class _Chain:
    """What is kept of one stream while its records pass by."""

    __slots__ = ("broken", "early", "last", "marks", "seq", "time")

    def __init__(self) -> None:
        self.seq = 0
        """The number of records that came in their turn."""
        self.last: str | None = None
        self.marks = bytearray()
        self.early: dict[int, tuple[str | None, str, Site]] = {}
        self.time = ""
        self.broken = False

    def holds(self, seq: int, mark: str) -> bool | None:
        """Whether the record of that place is the one named; None if there is none yet."""
        if seq in self.early:
            return self.early[seq][1] == mark
        if not 0 <= seq < self.seq:
            return None
        return self.marks[seq * MARK : (seq + 1) * MARK] == _mark(mark)

    @property
    def tip(self) -> tuple[int, str]:
        if self.early:
            last = max(self.early)
            return last, self.early[last][1]
        return self.seq - 1, self.last or ""


class Verifier:
    """Hears every line of a ledger once, in any order of files, and then gives its report."""

    def __init__(
        self,
        *,
        known: KnownHead | None = None,
        expected: str = "",
        require_chain: bool = False,
        keys: Iterable[bytes] = (),
    ) -> None:
        """`keys` are those with which records are signed; without any, signatures do not count."""
        self._keys = {key_id(key): key for key in keys}
        self._signed = 0
        self._known = known
        self._expected = expected.removeprefix(PREFIX).lower()
        self._require_chain = require_chain
        self._streams: dict[str, _Chain] = {}
        self._findings: list[Remark] = []
        self._failures = self._untold = 0
        self._references: list[tuple[Tip, Site]] = []
        self._anchored: dict[str, int] = {}
        self._grounds: dict[str, list[tuple[str, int]]] = {}
        """Which records each stream builds upon."""
        self._pruned: list[tuple[str, int, dict[str, Any]]] = []
        """The tombstones: the stream and the place of each, and what it says of one file."""
        self._absent: set[Tip] = set()
        """Records that are known to be away."""
        self._states: set[str] = set()
        self._unchained: Counter[str] = Counter()
        self._odd: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._files = self._records = self._seals = 0
        self._left_digest, self._left_longer = "", False

    def read(self, name: str, lines: Iterable[bytes], *, sealed: bool = False) -> None:
        """Take in one file. Lines keep their line ends; a sealed file must end with its seal."""
        self._files += 1
        tree, leaves, seal = MerkleTree(), 0, False
        digest, offset, number, torn = NO_BYTES, 0, 0, False
        follow = -1 if sealed or self._known is None else self._known.size
        if follow == 0:
            self._left_digest = digest.hex()
        for number, line in enumerate(lines, 1):
            if torn:
                self._fail("unreadable", "is longer than a record can be", Site(name, number - 1))
            torn = not line.endswith(b"\n")
            records = list(self._records_on(line, Site(name, number)))
            if offset < follow:
                digest, offset = digest_after(digest, line), offset + len(line)
                if offset == follow:
                    self._left_digest = digest.hex()
            elif not sealed and (records or not line.strip()):
                self._left_longer = True
            for own, mark, place in records:
                seal = own.get("kind") == "seal"
                if seal:
                    self._check_seal(own, tree.root, leaves, place)
                self._take(own, mark, place)
                leaves += 1
                tree.add(bytes.fromhex(mark[len(PREFIX) :]))
        if torn:
            self._warn(
                "torn-tail",
                "the last line is incomplete; the next record repairs it",
                Site(name, number),
            )
        if sealed and not seal:
            self._fail("seal", "a sealed file does not end with its seal", Site(name, number))

    def unreadable(self, name: str, why: str) -> None:
        self._fail("unreadable", f"cannot be read ({why})", Site(name, 1))

    def backlog(self, entries: int) -> None:
        """Say how many calls were begun and never recorded."""
        if entries:
            calls = "call was" if entries == 1 else "calls were"
            self._warn("backlog", f"{entries} {calls} begun and not recorded yet", None)

    def pass_over(self, tips: Iterable[Tip]) -> None:
        """The file that ends with these is not to be read."""
        self._absent.update(tips)

    def report(self) -> Report:
        for stream, state in self._streams.items():
            self._check_gaps(stream, state)
        self._check_pruned()
        for tip, place in self._references:
            away = tip in self._absent and tip[0] not in self._streams
            if self._holds(tip) is not True and not away:
                self._missing_anchor(tip, place)
        tips = self._tips()
        known = self._check_known(tips)
        self._check_expected(tips)
        self._tell_oddities()
        return Report(
            files=self._files,
            records=self._records,
            streams=len(self._streams),
            broken_streams=sum(state.broken for state in self._streams.values()),
            tips=tips,
            seals=self._seals,
            known=known,
            findings=tuple(self._findings),
            untold=self._untold,
            unchained=dict(self._unchained),
            kinds=dict(self._kinds),
            signed=self._signed if self._keys else None,
        )

    def _records_on(self, line: bytes, place: Site) -> Iterator[tuple[dict[str, Any], str, Site]]:
        """Every record of ours on the line: our part, its true hash, and where it is."""
        if not line.strip():
            self._odd["blank"] += 1
            return
        records, plain = self._decoded(line, place)
        for record in records:
            own = own_part(record)
            if own is None:
                self._note_unchained(record, place)
                continue
            self._odd["rewritten"] += not plain
            whole = line.rstrip(b"\n") if plain else _encoded(record)
            mark = _hash_of(whole, own)
            if mark != own["hash"]:
                where = place._replace(detail=_described(own, record))
                self._fail("hash", "content does not match its hash", where, own["stream"])
            if self._keys:
                self._check_signature(whole, own, place)
            yield {**own, "timestamp": record.get("timestamp")}, mark, place

    def _check_signature(self, whole: bytes, own: dict[str, Any], place: Site) -> None:
        """Only who has the key can sign, so a record that is signed was written here."""
        mac = own.get("mac")
        key = self._keys.get(mac.partition(":")[0]) if isinstance(mac, str) else None
        if key is None or not isinstance(mac, str):
            return
        bare = whole
        for name in ("hash", "mac"):
            bare = bare.replace(f'"{name}":"{own[name]}",'.encode(), b"", 1)
        if hmac.compare_digest(signature(key, bare).encode(), mac.encode("utf-8", "replace")):
            self._signed += 1
        else:
            self._fail("signature", "does not match its signature", place, own["stream"])

    def _decoded(self, line: bytes, place: Site) -> tuple[list[Any], bool]:
        """The objects on the line, and whether it is one object in canonical form."""
        try:
            text = line.decode("utf-8")
            record = _DECODER.decode(text)
            if _encoded(record) == line.rstrip(b"\n"):
                return [record], True
        except (ValueError, RecursionError):
            pass  # several objects, those of another writer, or damage: told apart below
        try:
            return list(decoded_objects(line.decode("utf-8"), _STRICT)), False
        except (ValueError, RecursionError) as error:
            others = _of_other_writers(line)
            if not others and line.endswith(b"\n"):
                self._fail("unreadable", f"is not a record ({_short(error)})", place)
            return others, False

    def _take(self, own: dict[str, Any], mark: str, place: Site) -> None:
        self._records += 1
        kind = str(own.get("kind"))
        self._kinds[kind] += 1
        name, seq, prev = own["stream"], own["seq"], own["prev"]
        state = self._streams.get(name)
        if state is None:
            state = self._streams[name] = _Chain()
        if seq == state.seq:
            self._link(state, prev, mark, name, place)
            while state.seq in state.early:
                prev, mark, where = state.early.pop(state.seq)
                self._link(state, prev, mark, name, where)
        elif seq < state.seq or seq in state.early:
            self._check_twin(state, seq, mark, name, place)
        else:
            self._odd["early"] += 1
            if len(state.early) < WAITING:
                state.early[seq] = (prev, mark, place)
            elif not state.broken:
                self._fail("gap", f"record #{state.seq} is missing", place, name)
        self._check_time(state, own["timestamp"], place, name)
        if kind in _REFERRING or "anchors" in own or "tips" in own:
            self._refer(own, kind, place)

    def _link(self, state: _Chain, prev: str | None, mark: str, name: str, place: Site) -> None:
        if prev != state.last:
            before = f"record #{state.seq - 1}" if state.seq else "the beginning of a stream"
            self._fail("prev", f"prev does not match {before}", place, name)
        state.marks += _mark(mark)
        state.last = mark
        state.seq += 1

    def _check_twin(self, state: _Chain, seq: int, mark: str, name: str, place: Site) -> None:
        if state.holds(seq, mark):
            self._odd["twice"] += 1
        else:
            self._fail("fork", f"another record #{seq} of its stream differs", place, name)

    def _check_time(self, state: _Chain, time: object, place: Site, name: str) -> None:
        if not isinstance(time, str):
            return
        if time < state.time and _seconds_between(time, state.time) > BACKWARDS:
            self._warn("clock", f"time runs backwards in stream {name}", place)
        state.time = max(time, state.time)

    def _refer(self, own: dict[str, Any], kind: str, place: Site) -> None:
        """Note what the record says of other streams: it must all be there in the end."""
        anchors, tips = tips_in(own.get("anchors")), tips_in(own.get("tips"))
        if anchors is None or tips is None:
            self._fail("anchor", "refers to other records in a wrong form", place, own["stream"])
            return
        for tip in anchors:
            if tip[0] != own["stream"]:
                self._anchored[tip[0]] = max(tip[1], self._anchored.get(tip[0], -1))
                self._grounds.setdefault(own["stream"], []).append(tip[:2])
        if isinstance(pruned := own.get("pruned"), list):
            files = [file for file in pruned if isinstance(file, dict)]
            self._pruned += [(own["stream"], own["seq"], file) for file in files]
        for tip in (*anchors, *tips):
            if self._holds(tip) is not True:
                self._references.append((tip, place))
        if kind == "checkpoint" and "state" in own:
            if own["state"] != state_id(tips):
                self._fail("checkpoint", "state does not match its tips", place, own["stream"])
            self._states.add(str(own["state"]).removeprefix(PREFIX))

    def _check_seal(self, own: dict[str, Any], root: str, leaves: int, place: Site) -> None:
        if own.get("root") == PREFIX + root and own.get("records") == leaves:
            self._seals += 1
        else:
            self._fail("seal", "the seal does not match the records before it", place)

    def _check_gaps(self, name: str, state: _Chain) -> None:
        if not state.early:
            return
        missing, before = state.seq, state.last
        for seq in sorted(state.early):
            prev, mark, place = state.early[seq]
            if seq != missing:
                lost = (
                    f"record #{missing} is"
                    if seq == missing + 1
                    else (f"records #{missing} to #{seq - 1} are")
                )
                self._fail("gap", f"{lost} missing before #{seq}", place, name)
            elif prev != before:
                self._fail("prev", f"prev does not match record #{seq - 1}", place, name)
            missing, before = seq + 1, mark

    def _holds(self, tip: Tip) -> bool | None:
        state = self._streams.get(tip[0])
        return None if state is None else state.holds(tip[1], tip[2])

    def _missing_anchor(self, tip: Tip, place: Site) -> None:
        stream, seq, _ = tip
        there = "is different" if self._holds(tip) is False else "is absent"
        self._fail("anchor", f"record #{seq} of stream {stream}, named here, {there}", place)
        if stream in self._streams:
            self._streams[stream].broken = True

    def _tips(self) -> tuple[Tip, ...]:
        tips = ((name, *state.tip) for name, state in self._streams.items())
        return tuple(sorted(tip for tip in tips if tip[1] > self._anchored.get(tip[0], -1)))

    def _check_pruned(self) -> None:
        """Say what was removed with a tombstone in its place. Anybody can write a tombstone: if
        the head is known, only one that it covers excuses that a file is away."""
        covered = self._covered_by_known() if self._known and self._pruned else {}
        for stream, seq, file in self._pruned:
            tips = tips_in(file.get("tips")) or []
            if not tips or any(tip[0] in self._streams for tip in tips):
                continue
            if self._known and seq > covered.get(stream, -1):
                text = "was pruned, and the known head does not cover that"
                self._warn("pruned-by-others", f"{file.get('file')} {text}", None)
            self._absent.update(tips)
            span = f"{str(file.get('first_time'))[:10]} to {str(file.get('last_time'))[:10]}"
            self._info(
                "pruned", f"{file.get('file')} was pruned ({file.get('records')} records, {span})"
            )

    def _covered_by_known(self) -> dict[str, int]:
        """How far each stream is known, by its own tip or because another builds upon it."""
        covered: dict[str, int] = {}
        left = [tip[:2] for tip in self._known.tips] if self._known else []
        while left:
            stream, seq = left.pop()
            if stream not in covered:
                left += self._grounds.get(stream, [])
            covered[stream] = max(seq, covered.get(stream, -1))
        return covered

    def _check_known(self, tips: tuple[Tip, ...]) -> str:
        if self._known is None:
            return ""
        absent = [
            tip
            for tip in self._known.tips
            if self._holds(tip) is not True
            and not (tip in self._absent and tip[0] not in self._streams)
        ]
        for stream, seq, _ in absent:
            self._warn(
                "known-head",
                f"known head missing: cut off, branch switched, or restored "
                f"(stream {stream} #{seq})",
                None,
            )
        if absent:
            return f"{len(absent)} of {len(self._known.tips)} missing"
        if not set(tips) <= set(self._known.tips):
            self._info("merged", "records that the known head does not cover were added or merged")
        # after a merge of branches the file is not as anybody left it
        as_left = self._left_digest == self._known.digest and not self._left_longer
        if self._known.state == state_id(tips) and not as_left:
            # `seq` decides, not the place of a line: nothing is lost or changed by it
            self._warn("not-as-left", "lines were reordered or repeated since", None)
        return f"ok ({self._known.records:,} records)"

    def _check_expected(self, tips: tuple[Tip, ...]) -> None:
        wanted = self._expected
        if not wanted:
            return
        reached = {state_id(tips).removeprefix(PREFIX), *self._states}
        if len(wanted) < 16 or not any(state.startswith(wanted) for state in reached):
            self._fail(
                "expected", f"the ledger was never in the expected state {wanted[:16]}", None
            )

    def _tell_oddities(self) -> None:
        sayings = {
            "twice": ("INFO", "repeated line", "repeated lines"),
            "early": ("INFO", "line out of order", "lines out of order"),
            "rewritten": ("WARN", "line not in canonical form", "lines not in canonical form"),
            "blank": ("WARN", "empty line", "empty lines"),
        }
        for code, (level, one, many) in sayings.items():
            if count := self._odd[code]:
                self._add(Remark(level, code, f"{count:,} {one if count == 1 else many}"))
        for kind, words in {"repair": "repaired tail", "recovered": "recovered call"}.items():
            if count := self._kinds[kind]:
                self._info(kind, f"{count:,} {words}{'' if count == 1 else 's'}")
        unsigned = self._records - self._signed
        if self._keys and unsigned:
            records = "record is" if unsigned == 1 else "records are"
            self._warn("unsigned", f"{unsigned:,} {records} not signed here: {UNSIGNED}", None)
        for writer, count in self._unchained.items():
            self._add(
                Remark(
                    "FAIL" if self._require_chain else "WARN",
                    "unchained",
                    f'{count:,} unchained record{"" if count == 1 else "s"} by "{writer}"',
                )
            )

    def _note_unchained(self, record: object, place: Site) -> None:
        if not isinstance(record, dict):
            self._fail("unreadable", "is not a record", place)
            return
        if _claims_a_chain(record):
            self._fail("shape", "has an incomplete chain entry", place)
            return
        tool = record.get("tool")
        name = tool.get("name") if isinstance(tool, dict) else None
        # whoever writes may choose any name: of a thousand, the rest are one
        known = str(name or "unknown")[:80]
        self._unchained[known if len(self._unchained) < SHOWN else "others"] += 1

    def _fail(self, code: str, text: str, place: Site | None, stream: str = "") -> None:
        if stream in self._streams:
            self._streams[stream].broken = True
        elif stream:
            self._streams[stream] = _Chain()
            self._streams[stream].broken = True
        self._failures += 1
        if self._failures > SHOWN:
            self._untold += 1
        else:
            self._add(_finding("FAIL", code, text, place))

    def _warn(self, code: str, text: str, place: Site | None) -> None:
        if code in _BREAKING or len(self._findings) < 2 * SHOWN:
            self._add(_finding("WARN", code, text, place))

    def _info(self, code: str, text: str) -> None:
        self._add(Remark("INFO", code, text))

    def _add(self, finding: Remark) -> None:
        self._findings.append(finding)


_REFERRING = frozenset({"stream_start", "checkpoint", "seal"})
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, check_circular=False
)


def _encoded(value: object) -> bytes:
    return _ENCODER.encode(value).encode("utf-8")


def _check(value: object) -> None:
    if isinstance(value, dict):
        for key, held in value.items():
            if not isinstance(key, str) or not key.isascii():
                raise ValueError(f"{key!r} is not a key of ASCII characters")
            _check(held)
    elif isinstance(value, list | tuple):
        for held in value:
            _check(held)
    elif isinstance(value, str):
        value.encode("utf-8")  # a lone surrogate is no Unicode, and says so
    elif isinstance(value, int):
        if abs(value) > LARGEST_INTEGER:
            raise ValueError(f"{value} is beyond 2^53 - 1")
    elif value is not None:
        raise ValueError(f"{type(value).__name__} is not allowed in a record")


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not an integer")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    held = dict(pairs)
    if len(held) != len(pairs):
        raise ValueError("a key appears twice in one object")
    return held


_DECODER = json.JSONDecoder(parse_float=_refuse_number, parse_constant=_refuse_number)
_STRICT = json.JSONDecoder(
    parse_float=_refuse_number, parse_constant=_refuse_number, object_pairs_hook=_pairs
)


_LENIENT = json.JSONDecoder()


def decoded_objects(text: str, decoder: json.JSONDecoder = _LENIENT) -> Iterator[Any]:
    """The objects of a line, which may hold several (a torn one followed by an append does)."""
    at, text = 0, text.strip()
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        yield value
        while at < len(text) and text[at].isspace():
            at += 1


def _of_other_writers(line: bytes) -> list[Any]:
    """The objects of a line that breaks our rules, if none of them claims to keep them."""
    try:
        objects = list(decoded_objects(line.decode("utf-8")))
    except (ValueError, RecursionError):
        return []
    strange = any(not isinstance(each, dict) or _claims_a_chain(each) for each in objects)
    return [] if strange else objects


def own_part(record: object) -> dict[str, Any] | None:
    """What a record of ours says of its chain, if it is one."""
    if not isinstance(record, dict) or not isinstance(record.get("metadata"), dict):
        return None
    own = record["metadata"].get("orchestration")
    return own if isinstance(own, dict) and _chained(own) else None


def _chained(own: dict[str, Any]) -> bool:
    seq, prev = own.get("seq"), own.get("prev", 0)
    return (
        isinstance(own.get("stream"), str)
        and type(seq) is int
        and 0 <= seq <= LARGEST_INTEGER
        and (prev is None or isinstance(prev, str))
        and isinstance(own.get("hash"), str)
    )


def _claims_a_chain(record: dict[str, Any]) -> bool:
    metadata = record.get("metadata")
    own = metadata.get("orchestration") if isinstance(metadata, dict) else None
    return isinstance(own, dict) and not {"stream", "seq", "hash"}.isdisjoint(own)


def _hash_of(whole: bytes, own: dict[str, Any]) -> str:
    """The hash of a record in canonical form, from which its `hash` member is cut out."""
    member = b'"hash":' + _encoded(own["hash"]) + b","
    part = _own_bytes(whole, member)
    if part is None:
        return PREFIX + "0" * 64
    digest = sha256(b"\0")
    digest.update(whole[:part])
    digest.update(whole[part + len(member) :])
    return PREFIX + digest.hexdigest()


def _own_bytes(whole: bytes, member: bytes) -> int | None:
    """Where the member is. It stands once: no record can hold its own hash a second time."""
    at = whole.find(member)
    return at if at >= 0 and whole.find(member, at + 1) < 0 else None


def _mark(text: str) -> bytes:
    try:
        return bytes.fromhex(text[len(PREFIX) : len(PREFIX) + 2 * MARK])
    except ValueError:
        return b""


def tips_in(named: object) -> list[Tip] | None:
    """The records a record names; None if it names them in another form than ours."""
    if named is None:
        return []
    if not isinstance(named, list) or not all(isinstance(tip, dict) for tip in named):
        return None
    tips = [(tip.get("stream"), tip.get("seq"), tip.get("hash")) for tip in named]
    if all(isinstance(a, str) and type(b) is int and isinstance(c, str) for a, b, c in tips):
        return tips
    return None


def _seconds_between(earlier: str, later: str) -> float:
    try:
        return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()
    except (ValueError, TypeError):
        return 0


def _described(own: dict[str, Any], record: dict[str, Any]) -> str:
    files = record.get("files")
    first = files[0] if isinstance(files, list) and files else {}
    path = first.get("path", "") if isinstance(first, dict) else ""
    time = str(record.get("timestamp"))[:19].replace("T", " ")
    said = [f"stream {own['stream'][:8]}… #{own['seq']}", f"{time}Z", own.get("kind"), path]
    return ", ".join(str(word) for word in said if word)


def _finding(level: str, code: str, text: str, place: Site | None) -> Remark:
    if place is None:
        return Remark(level, code, text)
    return Remark(level, code, text, place.file, place.line, place.detail)


def _short(error: Exception) -> str:
    return str(error)[:120]


MISSING = (
    "Records that the known head covers are missing. Ask for the ledger as it was when the head "
    "was noted, or why its end is gone."
)
_DAMAGED = "Ask for an undamaged copy of the file."
WAYS_OUT = {
    **dict.fromkeys(
        (
            *("hash", "prev", "gap", "fork", "seal", "anchor", "checkpoint", "shape"),
            *("signature", "unreadable"),
        ),
        _DAMAGED,
    ),
    "expected": "Ask who noted the state whether it is of this ledger, or ask for a newer copy.",
    "unchained": "Leave out --require-chain where other programs may add records.",
    "torn-tail": "Ask for the file again: its writer repairs the last line with the next record.",
    "pruned-by-others": "Ask who pruned it, and for a head that was noted later.",
}
"""What to do about findings, by their codes, for somebody who was handed the ledger."""


def told(
    report: Report,
    *,
    missing: str = MISSING,
    ways_out: Mapping[str, str] = WAYS_OUT,
    strict: bool = False,
) -> str:
    """The report as people read it. `missing` is said of a cut-off end; if warnings count, nothing
    is claimed of a ledger that has any."""
    breaking = [finding for finding in report.findings if finding.breaks]
    others = [finding for finding in report.findings if finding.level == "WARN"]
    rows = list(_failing(report, breaking, missing))
    rows += [f"WARN  {each.place}{each.text}" for each in others if not each.breaks]
    if breaking:
        codes = dict.fromkeys(finding.code for finding in breaking)
        rows += [
            _left(report),
            *dict.fromkeys(ways_out[code] for code in codes if code in ways_out),
        ]
        return "\n".join(rows)
    notes = [finding.text for finding in report.findings if finding.level == "INFO"]
    rows += [
        _extent(report),
        "  chain      ok",
        f"  anchors    ok ({_counted(len(report.tips), 'tip')})",
        f"  known head {report.known or 'none to compare with'}",
        *([f"  seals      {report.seals} ok"] if report.seals else []),
        *([] if report.signed is None else [f"  signed     {report.signed:,} here"]),
        *([f"  notes      {', '.join(notes)}"] if notes else []),
        f"state {report.state}",
        *([] if strict and others else [CLAIM]),
    ]
    return "\n".join(rows)


def _failing(report: Report, breaking: list[Remark], missing: str) -> Iterator[str]:
    """All that keeps the ledger from being whole. Of a cut-off end every head is a detail."""
    heads = [finding for finding in breaking if finding.code == "known-head"]
    if heads:
        yield f"FAIL  {missing}"
    yield from (f"      {finding.text}" for finding in heads)
    for finding in breaking:
        if finding.code != "known-head":
            yield f"FAIL  {finding.place}{_with_detail(finding)}"
    if report.untold:
        yield f"FAIL  and {report.untold:,} more"


def _left(report: Report) -> str:
    if not report.failures:
        return f"{_extent(report)} left"
    intact = report.streams - report.broken_streams
    return (
        f"{_counted(report.failures, 'failure')} in "
        f"{_counted(report.broken_streams, 'stream')}; {_counted(intact, 'stream')} "
        f"{'is' if intact == 1 else 'are'} intact"
    )


def _extent(report: Report) -> str:
    return (
        f"{_counted(report.files, 'segment')}, {_counted(report.records, 'record')}, "
        f"{_counted(report.streams, 'stream')}"
    )


def _with_detail(finding: Remark) -> str:
    return f"{finding.text}\n      {finding.detail}" if finding.detail else finding.text


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def known_head(text: str) -> KnownHead:
    """What a `heads.json` says. Raises ValueError if it is none."""
    held = json.loads(text)
    tips = tips_in(held.get("tips")) if isinstance(held, dict) else None
    if tips is None or not isinstance(held.get("records"), int):
        raise ValueError("it has no heads")
    file = held.get("file") or {}
    return KnownHead(
        tips=tuple(tips),
        records=held["records"],
        size=file.get("size", -1),
        digest=str(file.get("digest", "")),
        state=str(file.get("state", "")),
    )


def bounded_lines(readline: Callable[[int], bytes]) -> Iterator[bytes]:
    """The lines of a file, the overlong ones in pieces."""
    while line := readline(LONGEST_LINE):
        yield line


def exit_code(report: Report, *, strict: bool = False) -> int:
    warned = strict and any(finding.level == "WARN" for finding in report.findings)
    return 0 if report.whole and not warned else 1


def ledger_files(path: str) -> list[tuple[str, bool]]:
    """The files of the ledger at a path and whether each is sealed, oldest first."""
    import glob

    folder = path.rstrip("/")
    if folder.endswith((".jsonl", ".jsonl.gz")):
        active, folder = [path], folder.rpartition("/")[0] or "."
    else:
        active = glob.glob(f"{glob.escape(folder)}/agent_trace.jsonl")
    sealed = sorted(glob.glob(f"{glob.escape(folder)}/trace/*.jsonl*"))
    return [(name, True) for name in sealed] + [(name, False) for name in active]


def read_files(
    verifier: Verifier, files: Iterable[tuple[str, bool]], shown: Callable[[str], str] = str
) -> None:
    import gzip
    import zlib

    for name, sealed in files:
        try:
            with _regular(name) as plain:
                opened = gzip.GzipFile(fileobj=plain) if name.endswith(".gz") else plain
                packed = opened is not plain
                most = LARGEST_UNPACKED if packed else LARGEST_PLAIN
                readline = _at_most(opened.readline, most)
                verifier.read(shown(name), bounded_lines(readline), sealed=sealed)
        except (OSError, EOFError, zlib.error) as error:
            verifier.unreadable(shown(name), _short(error))


@contextmanager
def _regular(name: str) -> Iterator[Any]:
    """A file to read, and nothing that would make a reader wait for ever."""
    import os
    import stat

    def opener(path: str, flags: int) -> int:
        careful = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
        return os.open(path, flags | careful)

    with open(name, "rb", opener=opener) as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise OSError("it is not a regular file")
        yield opened


def _at_most(readline: Callable[[int], bytes], most: int) -> Callable[[int], bytes]:
    """The same, but a small file cannot unpack to more than anybody can read."""
    left = most

    def bounded(size: int) -> bytes:
        nonlocal left
        line = readline(size)
        left -= len(line)
        if left < 0:
            raise OSError("it unpacks to more than a ledger file can have")
        return line

    return bounded


def main(arguments: list[str] | None = None) -> int:
    import argparse

    parser = argparse.ArgumentParser(description="Check a ledger of agent traces.")
    parser.add_argument("path", metavar="PATH", help="an .orchestration folder or a ledger file")
    parser.add_argument("--head", metavar="FILE", help="the heads.json of this ledger")
    parser.add_argument(
        "--expect", default="", metavar="STATE", help="a state that it must contain"
    )
    parser.add_argument("--require-chain", action="store_true", help="reject unchained records")
    parser.add_argument("--key", metavar="FILE", help="the trace.key that records are signed with")
    parser.add_argument("--strict", action="store_true", help="treat warnings as failures")
    chosen = parser.parse_args(arguments)
    files = ledger_files(chosen.path)
    if not files:
        parser.error(f"there is no ledger at {chosen.path}")
    known = None
    if chosen.head:
        try:
            with open(chosen.head, encoding="utf-8") as file:
                known = known_head(file.read())
        except (OSError, ValueError) as error:
            parser.error(f"{chosen.head} cannot be used ({error})")
    keys = []
    if chosen.key:
        try:
            with open(chosen.key, "rb") as file:
                keys = [file.read()]
        except OSError as error:
            parser.error(f"{chosen.key} cannot be used ({error})")
    verifier = Verifier(
        known=known, expected=chosen.expect, require_chain=chosen.require_chain, keys=keys
    )
    read_files(verifier, files)
    report = verifier.report()
    print(told(report, strict=chosen.strict))
    return exit_code(report, strict=chosen.strict)


if __name__ == "__main__":
    raise SystemExit(main())
