"""What a cache says of itself, as values: the structs of report.h with the same field names."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

CHECKSUMS = ("off", "fill", "read")  #: words for enum dc_checksums


@dataclasses.dataclass(frozen=True)
class CacheInfo:
    """What a cache is. Sizes in bytes; see dc_cache_info in report.h."""

    name: str
    uuid: str
    fingerprint: str  #: "" where it has none
    length: int  #: entries
    capacity_bytes: int  #: for samples
    sample_bytes: int  #: as created; 0: samples of any size
    sample_bytes_max: int  #: the largest sample
    step_bytes: int  #: the unit in which memory is reserved
    steps: int  #: units in all
    file_bytes: int  #: apparent size of the file
    control_bytes: int  #: what header, client records and entries take
    job_id: int  #: the creator's: compare with ddpcache.job_id()
    created_unix_ns: int  #: when it was made
    creator_pid: int
    clients_max: int  #: processes that may be attached at one time
    clients_attached: int
    created: bool  #: this handle made the cache
    adopted: bool  #: it was there already, and nobody was attached to it
    droppable: bool  #: samples can be removed
    keyed: bool  #: samples have keys
    keys: int  #: that have an index, as counted; Cache.check counts them exactly
    checksums: str  #: "off", "fill" or "read"
    read_only: bool  #: this handle was attached to look only
    page_bytes: int  #: the largest page that maps samples, where huge_pages was asked for; else the file system's
    numa_nodes: int  #: over which samples are spread; 1: not spread
    keep: bool  #: it stays when the last client leaves
    format_version: int


@dataclasses.dataclass(frozen=True)
class CacheStats:
    """Counts of a cache, or of this process's use of it; see dc_cache_stats in report.h."""

    hits: int
    misses: int
    fills: int  #: samples stored
    aborts: int  #: fills given up, failed loaders included
    waits: int  #: times that a caller waited for another filler
    timeouts: int  #: waits that ended at their deadline
    bypasses: int  #: loads for which there was no room
    removed: int  #: samples removed
    damaged: int  #: samples given up because their record, or its checksum, was not what it must be
    takeovers: int  #: unfinished fills taken over from dead processes
    bytes_filled: int
    bytes_copied: int  #: by read_batch
    resident: int  #: samples in the cache now
    reserved_bytes: int  #: memory in use now
    open_fills: int  #: under way now
    oldest_fill_age_ns: int

    @property
    def hit_rate(self) -> float:
        """Hits of all look-ups, 0.0 to 1.0; 0.0 before the first."""
        return self.hits / max(1, self.hits + self.misses)


@dataclasses.dataclass(frozen=True)
class CacheReport:
    """What Cache.check found; see dc_cache_report in report.h."""

    clients: int
    clients_dead: int  #: of these: ended without leaving
    entries_ready: int  #: samples stored
    entries_writing: int  #: fills under way
    entries_orphaned: int  #: fills of dead processes, which the next caller takes over
    entries_bad: int  #: given up because their record was not sound
    entries_unverified: int  #: of the ready ones, on a disk: to be compared with their checksum at their first use
    extents_owned: int
    extents_free: int
    extents_named: int
    steps_reserved: int
    keys: int  #: that have an index
    keys_unfinished: int  #: being given one, or left so by a process that was killed
    violations: int  #: 0
    damaged_header: int  #: of the violations, as the others
    damaged_control: int
    damaged_clients: int
    damaged_entries: int
    damaged_steps: int
    damaged_extents: int
    damaged_records: int
    damaged_keys: int


@dataclasses.dataclass(frozen=True)
class SavedInfo:
    """What is in a saved file. Sizes in bytes; see dc_saved_info in saving.h."""

    name: str  #: of the cache that was saved, and so what follows
    uuid: str
    fingerprint: str  #: "" where it had none
    length: int  #: entries
    capacity_bytes: int
    sample_bytes: int
    sample_bytes_max: int
    droppable: bool
    keyed: bool
    keys: int  #: that have an index
    samples: int  #: in the file
    record_bytes: int  #: of all samples as stored
    largest_bytes: int  #: of the largest one as stored
    file_bytes: int
    saved_unix_ns: int  #: when it was saved
    library: str  #: version of the library that saved it
    version: int  #: of the file's format


@dataclasses.dataclass(frozen=True)
class CacheEstimate:
    """What a cache for all of its samples takes. Sizes in bytes."""

    capacity_bytes: int  #: to ask for as `capacity`
    total_bytes: int  #: in shared memory, bookkeeping included


_Record = TypeVar("_Record")


def record(cls: type[_Record], source: Any) -> _Record:
    """A dataclass from the struct with the same field names."""
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    values = {field.name: getattr(source, field.name) for field in fields}
    for field in fields:
        if field.type == "bool":
            values[field.name] = bool(values[field.name])
    if "checksums" in values:
        values["checksums"] = CHECKSUMS[values["checksums"]]
    return cls(**values)


def sized(cls: Any, size: int) -> Any:
    struct = cls()
    struct.struct_size = size
    return struct
