#!/usr/bin/env python3
"""Verify a ledger of agent traces: `python3 verify_ledger.py [--head heads.json] PATH`.

This file needs only Python, so that an auditor can run it without the product; the product uses the
same functions. PATH is an `.orchestration` folder or a ledger file. Only the functions from
`ledger_files` on touch files. Exit codes: 0 if the ledger is complete and unaltered, 1 if there are
findings, 2 for wrong arguments.

Every record holds the SHA-256 of its own canonical JSON and that of the previous record in the same
stream. The first record of a stream names the tips of all other streams. Lines may be in any order:
`seq` is the order of a stream. A chain cannot show that its end was cut off; that takes a head
known from elsewhere (`--head`, `--expect`).
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
"""Maximum bytes of a line, to bound memory. No writer makes longer ones."""
HASH_BYTES = 16
"""Bytes kept of a record's hash, to compare repeated records and references."""
MAX_EARLY = 100_000
"""Maximum records of one stream held back because an earlier record has not been read yet."""
MAX_FINDINGS = 1_000
"""Maximum failures kept in the report; later ones are only counted."""
CLOCK_TOLERANCE = 300
"""Seconds that timestamps may go back within a stream without a warning."""
EMPTY_DIGEST = bytes(32)
"""The digest of an empty file."""
UNSIGNED = "from another machine, from before records were signed, or forged"
CLAIM = (
    "Shows that records were not altered or removed since the known head; it cannot show that "
    "nothing happened outside governed tools."
)

Tip = tuple[str, int, str]
"""Stream, sequence number and hash of a record."""


def canonical(value: object) -> bytes:
    """Encode a value as canonical JSON (RFC 8785, with the limits below).

    Raises ValueError for non-integer numbers, integers beyond 2^53 - 1, keys that are not ASCII,
    and text with lone surrogates.
    """
    _check(value)
    return _encode(value)


def leaf_hash(record: dict[str, Any]) -> str:
    """Hash of a record without its own `hash` member (an RFC 6962 leaf)."""
    own = record["metadata"]["orchestration"]
    bare = {name: value for name, value in own.items() if name != "hash"}
    whole = {**record, "metadata": {**record["metadata"], "orchestration": bare}}
    return PREFIX + sha256(b"\0" + canonical(whole)).hexdigest()


def key_id(key: bytes) -> str:
    """Public id of a signing key; it does not reveal the key."""
    return sha256(b"trace key\0" + key).hexdigest()[:16]


def signature(key: bytes, record: bytes) -> str:
    """Sign a record, given as canonical JSON without its `hash` and `mac`."""
    return f"{key_id(key)}:{hmac.digest(key, record, 'sha256').hex()}"


def state_id(tips: Iterable[Tip]) -> str:
    """One hash that identifies the state of a whole ledger."""
    return PREFIX + sha256(b"\2" + canonical(tips_json(sorted(tips)))).hexdigest()


def tips_json(tips: Iterable[Tip]) -> list[dict[str, Any]]:
    return [{"stream": stream, "seq": seq, "hash": hash_} for stream, seq, hash_ in tips]


def extend_digest(digest: bytes, line: bytes) -> bytes:
    """Running digest of a file's lines; depends on their bytes and order."""
    return sha256(digest + line).digest()


class MerkleTree:
    """Incremental RFC 6962 Merkle tree. Memory grows with the logarithm of the leaves."""

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
        """Roots of the complete subtrees, largest first: all that is needed to restore the tree."""
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
"""Maximum bytes of a ledger file. Writers seal files long before they are this large."""


class KnownHead(NamedTuple):
    """What is known of a ledger: all tips ever seen, the number of records, the size and the
    line digest of the active file (-1 and empty if unknown), and the ledger's state."""

    tips: tuple[Tip, ...]
    records: int
    size: int = -1
    digest: str = ""
    state: str = ""


class LedgerFinding(NamedTuple):
    level: str
    """FAIL, WARN or INFO."""
    code: str
    text: str
    file: str = ""
    line: int = 0
    detail: str = ""

    @property
    def breaks(self) -> bool:
        """Whether the ledger is no longer complete and unaltered."""
        return self.level == "FAIL" or self.code in _BREAKING

    @property
    def location(self) -> str:
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
    """Result of the comparison with the known head, as text; empty if there was none."""
    findings: tuple[LedgerFinding, ...]
    omitted: int
    """Number of failures that are not in `findings`."""
    unchained: dict[str, int]
    """Number of records without a chain, by the tool that wrote them."""
    kinds: dict[str, int]
    signed: int | None = None
    """Number of records with a valid signature; None if there was no key to check with."""

    @property
    def state(self) -> str:
        return state_id(self.tips)

    @property
    def failures(self) -> int:
        return self.omitted + sum(finding.level == "FAIL" for finding in self.findings)

    @property
    def whole(self) -> bool:
        return not self.omitted and not any(finding.breaks for finding in self.findings)


class Site(NamedTuple):
    file: str
    line: int
    detail: str = ""


class _Chain:
    """State of one stream while its records are read."""

    __slots__ = ("broken", "early", "hashes", "last", "seq", "time")

    def __init__(self) -> None:
        self.seq = 0
        """Number of records read in sequence; later ones wait in `early`."""
        self.last: str | None = None
        self.hashes = bytearray()
        self.early: dict[int, tuple[str | None, str, Site]] = {}
        self.time = ""
        self.broken = False

    def holds(self, seq: int, hash_: str) -> bool | None:
        """Whether record `seq` has this hash; None if it has not been read."""
        if seq in self.early:
            return self.early[seq][1] == hash_
        if not 0 <= seq < self.seq:
            return None
        return self.hashes[seq * HASH_BYTES : (seq + 1) * HASH_BYTES] == _hash_prefix(hash_)

    @property
    def tip(self) -> tuple[int, str]:
        if self.early:
            last = max(self.early)
            return last, self.early[last][1]
        return self.seq - 1, self.last or ""


class Verifier:
    """Reads every line of a ledger once, its files in any order, then reports."""

    def __init__(
        self,
        *,
        known: KnownHead | None = None,
        expected: str = "",
        require_chain: bool = False,
        keys: Iterable[bytes] = (),
    ) -> None:
        """`keys` are the signing keys; without any, signatures are not checked."""
        self._keys = {key_id(key): key for key in keys}
        self._signed = 0
        self._known = known
        self._expected = expected.removeprefix(PREFIX).lower()
        self._require_chain = require_chain
        self._streams: dict[str, _Chain] = {}
        self._findings: list[LedgerFinding] = []
        self._failures = self._omitted = 0
        self._references: list[tuple[Tip, Site]] = []
        self._anchored: dict[str, int] = {}
        self._anchors: dict[str, list[tuple[str, int]]] = {}
        """The records that each stream names as anchors, as (stream, seq)."""
        self._pruned: list[tuple[str, int, dict[str, Any]]] = []
        """Tombstones of pruned files: stream and seq of the record, and its entry for one file."""
        self._excused: set[Tip] = set()
        """Tips of files that were pruned or skipped, so references to them are not failures."""
        self._states: set[str] = set()
        self._unchained: Counter[str] = Counter()
        self._oddities: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._files = self._records = self._seals = 0
        self._active_digest, self._active_grew = "", False

    def read(self, name: str, lines: Iterable[bytes], *, sealed: bool = False) -> None:
        """Read one file. Lines keep their line ends; a sealed file must end with its seal."""
        self._files += 1
        tree, leaves, seal = MerkleTree(), 0, False
        digest, offset, number, torn = EMPTY_DIGEST, 0, 0, False
        follow = -1 if sealed or self._known is None else self._known.size
        if follow == 0:
            self._active_digest = digest.hex()
        for number, line in enumerate(lines, 1):
            if torn:
                self._fail("unreadable", "is longer than a record can be", Site(name, number - 1))
            torn = not line.endswith(b"\n")
            records = list(self._records_on(line, Site(name, number)))
            if offset < follow:
                digest, offset = extend_digest(digest, line), offset + len(line)
                if offset == follow:
                    self._active_digest = digest.hex()
            elif not sealed and (records or not line.strip()):
                self._active_grew = True
            for own, hash_, site in records:
                seal = own.get("kind") == "seal"
                if seal:
                    self._check_seal(own, tree.root, leaves, site)
                self._add_record(own, hash_, site)
                leaves += 1
                tree.add(bytes.fromhex(hash_[len(PREFIX) :]))
        if torn:
            self._warn(
                "torn-tail",
                "the last line is incomplete; the next record repairs it",
                Site(name, number),
            )
        if sealed and not seal:
            self._fail("seal", "a sealed file does not end with its seal", Site(name, number))

    def add_unreadable(self, name: str, why: str) -> None:
        self._fail("unreadable", f"cannot be read ({why})", Site(name, 1))

    def warn_unrecorded(self, entries: int, remarks: Iterable[str] = ()) -> None:
        """Warn about calls that were started and not recorded, and about damaged journals."""
        for text in remarks:
            self._warn("journal", text, None)
        if entries:
            calls = "call was" if entries == 1 else "calls were"
            self._warn("backlog", f"{entries} {calls} started and not recorded yet", None)

    def skip(self, tips: Iterable[Tip]) -> None:
        """Skip the file that ends with these tips."""
        self._excused.update(tips)

    def report(self) -> Report:
        for stream, state in self._streams.items():
            self._check_gaps(stream, state)
        self._check_pruned()
        for tip, site in self._references:
            away = tip in self._excused and tip[0] not in self._streams
            if self._holds(tip) is not True and not away:
                self._fail_anchor(tip, site)
        tips = self._tips()
        known = self._check_known(tips)
        self._check_expected(tips)
        self._report_oddities()
        return Report(
            files=self._files,
            records=self._records,
            streams=len(self._streams),
            broken_streams=sum(state.broken for state in self._streams.values()),
            tips=tips,
            seals=self._seals,
            known=known,
            findings=tuple(self._findings),
            omitted=self._omitted,
            unchained=dict(self._unchained),
            kinds=dict(self._kinds),
            signed=self._signed if self._keys else None,
        )

    def _records_on(self, line: bytes, site: Site) -> Iterator[tuple[dict[str, Any], str, Site]]:
        """Yield the chain entry, the computed hash and the position of each chained record."""
        if not line.strip():
            self._oddities["blank"] += 1
            return
        records, plain = self._decode(line, site)
        for record in records:
            own = chain_entry(record)
            if own is None:
                self._note_unchained(record, site)
                continue
            self._oddities["rewritten"] += not plain
            whole = line.rstrip(b"\n") if plain else _encode(record)
            hash_ = _hash_of(whole, own)
            if hash_ != own["hash"]:
                where = site._replace(detail=_summary(own, record))
                self._fail("hash", "content does not match its hash", where, own["stream"])
            if self._keys:
                self._check_signature(whole, own, site)
            yield {**own, "timestamp": record.get("timestamp")}, hash_, site

    def _check_signature(self, whole: bytes, own: dict[str, Any], site: Site) -> None:
        """Check the signature, if it was made with one of our keys."""
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
            self._fail("signature", "does not match its signature", site, own["stream"])

    def _decode(self, line: bytes, site: Site) -> tuple[list[Any], bool]:
        """The objects on the line, and whether the line is a single object in canonical form."""
        try:
            text = line.decode("utf-8")
            record = _DECODER.decode(text)
            if _encode(record) == line.rstrip(b"\n"):
                return [record], True
        except (ValueError, RecursionError):
            pass  # several objects, a foreign record, or damage: see below
        try:
            return list(decode_objects(line.decode("utf-8"), _STRICT)), False
        except (ValueError, RecursionError) as error:
            foreign = _foreign_objects(line)
            if not foreign and line.endswith(b"\n"):
                self._fail("unreadable", f"is not a record ({_error_text(error)})", site)
            return foreign, False

    def _add_record(self, own: dict[str, Any], hash_: str, site: Site) -> None:
        self._records += 1
        kind = str(own.get("kind"))
        self._kinds[kind] += 1
        name, seq, prev = own["stream"], own["seq"], own["prev"]
        state = self._streams.get(name)
        if state is None:
            state = self._streams[name] = _Chain()
        if seq == state.seq:
            self._link(state, prev, hash_, name, site)
            while state.seq in state.early:
                prev, hash_, where = state.early.pop(state.seq)
                self._link(state, prev, hash_, name, where)
        elif seq < state.seq or seq in state.early:
            self._check_repeated(state, seq, hash_, name, site)
        else:
            self._oddities["early"] += 1
            if len(state.early) < MAX_EARLY:
                state.early[seq] = (prev, hash_, site)
            elif not state.broken:
                self._fail("gap", f"record #{state.seq} is missing", site, name)
        self._check_time(state, own["timestamp"], site, name)
        if kind in _REFERRING or "anchors" in own or "tips" in own:
            self._add_references(own, kind, site)

    def _link(self, state: _Chain, prev: str | None, hash_: str, name: str, site: Site) -> None:
        if prev != state.last:
            before = f"record #{state.seq - 1}" if state.seq else "the beginning of a stream"
            self._fail("prev", f"prev does not match {before}", site, name)
        state.hashes += _hash_prefix(hash_)
        state.last = hash_
        state.seq += 1

    def _check_repeated(self, state: _Chain, seq: int, hash_: str, name: str, site: Site) -> None:
        if state.holds(seq, hash_):
            self._oddities["twice"] += 1
        else:
            self._fail("fork", f"another record #{seq} of its stream differs", site, name)

    def _check_time(self, state: _Chain, time: object, site: Site, name: str) -> None:
        if not isinstance(time, str):
            return
        if time < state.time and _seconds_between(time, state.time) > CLOCK_TOLERANCE:
            self._warn("clock", f"time runs backwards in stream {name}", site)
        state.time = max(time, state.time)

    def _add_references(self, own: dict[str, Any], kind: str, site: Site) -> None:
        """Collect the records that this record names; `report` checks that they exist."""
        anchors, tips = parse_tips(own.get("anchors")), parse_tips(own.get("tips"))
        if anchors is None or tips is None:
            self._fail("anchor", "refers to other records in a wrong form", site, own["stream"])
            return
        for tip in anchors:
            if tip[0] != own["stream"]:
                self._anchored[tip[0]] = max(tip[1], self._anchored.get(tip[0], -1))
                self._anchors.setdefault(own["stream"], []).append(tip[:2])
        if isinstance(pruned := own.get("pruned"), list):
            files = [file for file in pruned if isinstance(file, dict)]
            self._pruned += [(own["stream"], own["seq"], file) for file in files]
        for tip in (*anchors, *tips):
            if self._holds(tip) is not True:
                self._references.append((tip, site))
        if kind == "checkpoint" and "state" in own:
            if own["state"] != state_id(tips):
                self._fail("checkpoint", "state does not match its tips", site, own["stream"])
            self._states.add(str(own["state"]).removeprefix(PREFIX))

    def _check_seal(self, own: dict[str, Any], root: str, leaves: int, site: Site) -> None:
        if own.get("root") == PREFIX + root and own.get("records") == leaves:
            self._seals += 1
        else:
            self._fail("seal", "the seal does not match the records before it", site)

    def _check_gaps(self, name: str, state: _Chain) -> None:
        if not state.early:
            return
        missing, before = state.seq, state.last
        for seq in sorted(state.early):
            prev, hash_, site = state.early[seq]
            if seq != missing:
                lost = (
                    f"record #{missing} is"
                    if seq == missing + 1
                    else (f"records #{missing} to #{seq - 1} are")
                )
                self._fail("gap", f"{lost} missing before #{seq}", site, name)
            elif prev != before:
                self._fail("prev", f"prev does not match record #{seq - 1}", site, name)
            missing, before = seq + 1, hash_

    def _holds(self, tip: Tip) -> bool | None:
        state = self._streams.get(tip[0])
        return None if state is None else state.holds(tip[1], tip[2])

    def _fail_anchor(self, tip: Tip, site: Site) -> None:
        stream, seq, _ = tip
        there = "is different" if self._holds(tip) is False else "is absent"
        self._fail("anchor", f"record #{seq} of stream {stream}, named here, {there}", site)
        if stream in self._streams:
            self._streams[stream].broken = True

    def _tips(self) -> tuple[Tip, ...]:
        tips = ((name, *state.tip) for name, state in self._streams.items())
        return tuple(sorted(tip for tip in tips if tip[1] > self._anchored.get(tip[0], -1)))

    def _check_pruned(self) -> None:
        """Report pruned files. Anyone can write a tombstone, so if a head is known, it must
        cover the tombstone; otherwise the missing file is a finding."""
        covered = self._covered_by_known() if self._known and self._pruned else {}
        for stream, seq, file in self._pruned:
            tips = parse_tips(file.get("tips")) or []
            if not tips or any(tip[0] in self._streams for tip in tips):
                continue
            if self._known and seq > covered.get(stream, -1):
                text = "was pruned, and the known head does not cover that"
                self._warn("pruned-by-others", f"{file.get('file')} {text}", None)
            self._excused.update(tips)
            span = f"{str(file.get('first_time'))[:10]} to {str(file.get('last_time'))[:10]}"
            self._info(
                "pruned", f"{file.get('file')} was pruned ({file.get('records')} records, {span})"
            )

    def _covered_by_known(self) -> dict[str, int]:
        """The highest known `seq` of each stream, from its tip or from streams anchored to it."""
        covered: dict[str, int] = {}
        left = [tip[:2] for tip in self._known.tips] if self._known else []
        while left:
            stream, seq = left.pop()
            if stream not in covered:
                left += self._anchors.get(stream, [])
            covered[stream] = max(seq, covered.get(stream, -1))
        return covered

    def _check_known(self, tips: tuple[Tip, ...]) -> str:
        if self._known is None:
            return ""
        absent = [
            tip
            for tip in self._known.tips
            if self._holds(tip) is not True
            and not (tip in self._excused and tip[0] not in self._streams)
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
        # a merge changes the file and the state: compare only if the state is the same
        unchanged = self._active_digest == self._known.digest and not self._active_grew
        if self._known.state == state_id(tips) and not unchanged:
            # only a warning: `seq` is the order, so nothing is lost
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

    def _report_oddities(self) -> None:
        labels = {
            "twice": ("INFO", "repeated line", "repeated lines"),
            "early": ("INFO", "line out of order", "lines out of order"),
            "rewritten": ("WARN", "line not in canonical form", "lines not in canonical form"),
            "blank": ("WARN", "empty line", "empty lines"),
        }
        for code, (level, one, many) in labels.items():
            if count := self._oddities[code]:
                self._add(LedgerFinding(level, code, f"{count:,} {one if count == 1 else many}"))
        for kind, words in {"repair": "repaired tail", "recovered": "recovered call"}.items():
            if count := self._kinds[kind]:
                self._info(kind, f"{count:,} {words}{'' if count == 1 else 's'}")
        unsigned = self._records - self._signed
        if self._keys and unsigned:
            records = "record is" if unsigned == 1 else "records are"
            self._warn("unsigned", f"{unsigned:,} {records} not signed here: {UNSIGNED}", None)
        for writer, count in self._unchained.items():
            self._add(
                LedgerFinding(
                    "FAIL" if self._require_chain else "WARN",
                    "unchained",
                    f'{count:,} unchained record{"" if count == 1 else "s"} by "{writer}"',
                )
            )

    def _note_unchained(self, record: object, site: Site) -> None:
        if not isinstance(record, dict):
            self._fail("unreadable", "is not a record", site)
            return
        if _has_chain_fields(record):
            self._fail("shape", "has an incomplete chain entry", site)
            return
        tool = record.get("tool")
        name = tool.get("name") if isinstance(tool, dict) else None
        # foreign writers can use any number of names
        known = str(name or "unknown")[:80]
        self._unchained[known if len(self._unchained) < MAX_FINDINGS else "others"] += 1

    def _fail(self, code: str, text: str, site: Site | None, stream: str = "") -> None:
        if stream in self._streams:
            self._streams[stream].broken = True
        elif stream:
            self._streams[stream] = _Chain()
            self._streams[stream].broken = True
        self._failures += 1
        if self._failures > MAX_FINDINGS:
            self._omitted += 1
        else:
            self._add(_finding("FAIL", code, text, site))

    def _warn(self, code: str, text: str, site: Site | None) -> None:
        if code in _BREAKING or len(self._findings) < 2 * MAX_FINDINGS:
            self._add(_finding("WARN", code, text, site))

    def _info(self, code: str, text: str) -> None:
        self._add(LedgerFinding("INFO", code, text))

    def _add(self, finding: LedgerFinding) -> None:
        self._findings.append(finding)


_REFERRING = frozenset({"stream_start", "checkpoint", "seal"})
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, check_circular=False
)


def _encode(value: object) -> bytes:
    return _ENCODER.encode(value).encode("utf-8")


def _check(value: object) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str) or not key.isascii():
                raise ValueError(f"{key!r} is not a key of ASCII characters")
            _check(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _check(item)
    elif isinstance(value, str):
        value.encode("utf-8")  # raises for a lone surrogate
    elif isinstance(value, int):
        if abs(value) > LARGEST_INTEGER:
            raise ValueError(f"{value} is beyond 2^53 - 1")
    elif value is not None:
        raise ValueError(f"{type(value).__name__} is not allowed in a record")


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not an integer")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key appears twice in one object")
    return value


_DECODER = json.JSONDecoder(parse_float=_refuse_number, parse_constant=_refuse_number)
_STRICT = json.JSONDecoder(
    parse_float=_refuse_number, parse_constant=_refuse_number, object_pairs_hook=_pairs
)


_LENIENT = json.JSONDecoder()


def decode_objects(text: str, decoder: json.JSONDecoder = _LENIENT) -> Iterator[Any]:
    """Decode the objects on a line. There can be several: a writer may append to a torn line."""
    at, text = 0, text.strip()
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        yield value
        while at < len(text) and text[at].isspace():
            at += 1


def _foreign_objects(line: bytes) -> list[Any]:
    """The objects on a line that is not valid in our format, if none of them has a chain entry."""
    try:
        objects = list(decode_objects(line.decode("utf-8")))
    except (ValueError, RecursionError):
        return []
    strange = any(not isinstance(each, dict) or _has_chain_fields(each) for each in objects)
    return [] if strange else objects


def chain_entry(record: object) -> dict[str, Any] | None:
    """The chain entry of a record (`metadata.orchestration`); None if it has no valid one."""
    if not isinstance(record, dict) or not isinstance(record.get("metadata"), dict):
        return None
    own = record["metadata"].get("orchestration")
    return own if isinstance(own, dict) and _is_chain_entry(own) else None


def _is_chain_entry(own: dict[str, Any]) -> bool:
    """Whether the chain entry is valid. Foreign records may hold text that cannot be encoded."""
    seq, prev = own.get("seq"), own.get("prev", 0)
    return (
        type(seq) is int
        and 0 <= seq <= LARGEST_INTEGER
        and (prev is None or isinstance(prev, str))
        and all(isinstance(own.get(key), str) and own[key].isascii() for key in ("stream", "hash"))
    )


def _has_chain_fields(record: dict[str, Any]) -> bool:
    metadata = record.get("metadata")
    own = metadata.get("orchestration") if isinstance(metadata, dict) else None
    return isinstance(own, dict) and not {"stream", "seq", "hash"}.isdisjoint(own)


def _hash_of(whole: bytes, own: dict[str, Any]) -> str:
    """Hash a record given as canonical JSON, by cutting out its `hash` member."""
    member = b'"hash":' + _encode(own["hash"]) + b","
    part = _member_offset(whole, member)
    if part is None:
        return PREFIX + "0" * 64
    digest = sha256(b"\0")
    digest.update(whole[:part])
    digest.update(whole[part + len(member) :])
    return PREFIX + digest.hexdigest()


def _member_offset(whole: bytes, member: bytes) -> int | None:
    """Offset of the member; None unless it occurs once, as a record cannot repeat its own hash."""
    at = whole.find(member)
    return at if at >= 0 and whole.find(member, at + 1) < 0 else None


def _hash_prefix(text: str) -> bytes:
    try:
        return bytes.fromhex(text[len(PREFIX) : len(PREFIX) + 2 * HASH_BYTES])
    except ValueError:
        return b""


def parse_tips(named: object) -> list[Tip] | None:
    """Parse the tips that a record names; None if they are not in our format."""
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


def _summary(own: dict[str, Any], record: dict[str, Any]) -> str:
    files = record.get("files")
    first = files[0] if isinstance(files, list) and files else {}
    path = first.get("path", "") if isinstance(first, dict) else ""
    time = str(record.get("timestamp"))[:19].replace("T", " ")
    parts = [f"stream {own['stream'][:8]}… #{own['seq']}", f"{time}Z", own.get("kind"), path]
    return ", ".join(str(word) for word in parts if word)


def _finding(level: str, code: str, text: str, site: Site | None) -> LedgerFinding:
    if site is None:
        return LedgerFinding(level, code, text)
    return LedgerFinding(level, code, text, site.file, site.line, site.detail)


def _error_text(error: Exception) -> str:
    return str(error)[:120]


MISSING = (
    "Records that the known head covers are missing. Ask for the ledger as it was when the head "
    "was noted, or why its end is gone."
)
_DAMAGED = "Ask for an undamaged copy of the file."
ADVICE = {
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
"""Advice by finding code, for an auditor who was given the ledger."""


def format_report(
    report: Report,
    *,
    missing: str = MISSING,
    advice: Mapping[str, str] = ADVICE,
    strict: bool = False,
) -> str:
    """Format the report for people. `missing` is the message for a cut-off end. With `strict`, a
    ledger with warnings gets no statement of what the check shows."""
    breaking = [finding for finding in report.findings if finding.breaks]
    others = [finding for finding in report.findings if finding.level == "WARN"]
    rows = list(_failure_rows(report, breaking, missing))
    rows += [f"WARN  {each.location}{each.text}" for each in others if not each.breaks]
    if breaking:
        codes = dict.fromkeys(finding.code for finding in breaking)
        rows += [
            _failure_summary(report),
            *dict.fromkeys(advice[code] for code in codes if code in advice),
        ]
        return "\n".join(rows)
    notes = [finding.text for finding in report.findings if finding.level == "INFO"]
    rows += [
        _size_text(report),
        "  chain      ok",
        f"  anchors    ok ({_plural(len(report.tips), 'tip')})",
        f"  known head {report.known or 'none to compare with'}",
        *([f"  seals      {report.seals} ok"] if report.seals else []),
        *([] if report.signed is None else [f"  signed     {report.signed:,} here"]),
        *([f"  notes      {', '.join(notes)}"] if notes else []),
        f"state {report.state}",
        *([] if strict and others else [CLAIM]),
    ]
    return "\n".join(rows)


def _failure_rows(report: Report, breaking: list[LedgerFinding], missing: str) -> Iterator[str]:
    """Yield the findings that break the ledger. Missing heads are details of one failure."""
    heads = [finding for finding in breaking if finding.code == "known-head"]
    if heads:
        yield f"FAIL  {missing}"
    yield from (f"      {finding.text}" for finding in heads)
    for finding in breaking:
        if finding.code != "known-head":
            yield f"FAIL  {finding.location}{_with_detail(finding)}"
    if report.omitted:
        yield f"FAIL  and {report.omitted:,} more"


def _failure_summary(report: Report) -> str:
    if not report.failures:
        return f"{_size_text(report)} left"
    intact = report.streams - report.broken_streams
    return (
        f"{_plural(report.failures, 'failure')} in "
        f"{_plural(report.broken_streams, 'stream')}; {_plural(intact, 'stream')} "
        f"{'is' if intact == 1 else 'are'} intact"
    )


def _size_text(report: Report) -> str:
    return (
        f"{_plural(report.files, 'segment')}, {_plural(report.records, 'record')}, "
        f"{_plural(report.streams, 'stream')}"
    )


def _with_detail(finding: LedgerFinding) -> str:
    return f"{finding.text}\n      {finding.detail}" if finding.detail else finding.text


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def parse_head(text: str) -> KnownHead:
    """Parse a `heads.json`. Raises ValueError if it is not one."""
    head = json.loads(text)
    tips = parse_tips(head.get("tips")) if isinstance(head, dict) else None
    if tips is None or not isinstance(head.get("records"), int):
        raise ValueError("it has no heads")
    file = head.get("file") or {}
    return KnownHead(
        tips=tuple(tips),
        records=head["records"],
        size=file.get("size", -1),
        digest=str(file.get("digest", "")),
        state=str(file.get("state", "")),
    )


def bounded_lines(readline: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield the lines of a file; overlong lines come in pieces."""
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
            with _open_regular(name) as plain:
                opened = gzip.GzipFile(fileobj=plain) if name.endswith(".gz") else plain
                packed = opened is not plain
                limit = LARGEST_UNPACKED if packed else LARGEST_PLAIN
                readline = _limit_bytes(opened.readline, limit)
                verifier.read(shown(name), bounded_lines(readline), sealed=sealed)
        except (OSError, EOFError, zlib.error) as error:
            verifier.add_unreadable(shown(name), _error_text(error))


@contextmanager
def _open_regular(name: str) -> Iterator[Any]:
    """Open a regular file. Refuses links, and pipes and devices without blocking."""
    import os
    import stat

    def opener(path: str, flags: int) -> int:
        safe_flags = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
        return os.open(path, flags | safe_flags)

    with open(name, "rb", opener=opener) as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise OSError("it is not a regular file")
        yield opened


def _limit_bytes(readline: Callable[[int], bytes], limit: int) -> Callable[[int], bytes]:
    """Limit the total bytes `readline` returns: a small file must not unpack to a huge one."""
    left = limit

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
    args = parser.parse_args(arguments)
    files = ledger_files(args.path)
    if not files:
        parser.error(f"there is no ledger at {args.path}")
    known = None
    if args.head:
        try:
            with open(args.head, encoding="utf-8") as file:
                known = parse_head(file.read())
        except (OSError, ValueError) as error:
            parser.error(f"{args.head} cannot be used ({error})")
    keys = []
    if args.key:
        try:
            with open(args.key, "rb") as file:
                keys = [file.read()]
        except OSError as error:
            parser.error(f"{args.key} cannot be used ({error})")
    verifier = Verifier(
        known=known, expected=args.expect, require_chain=args.require_chain, keys=keys
    )
    read_files(verifier, files)
    report = verifier.report()
    print(format_report(report, strict=args.strict))
    return exit_code(report, strict=args.strict)


if __name__ == "__main__":
    raise SystemExit(main())
