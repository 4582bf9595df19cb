//! What a cache is, what it has counted, and whether it is sound.

use std::time::{Duration, SystemTime};

use ddpcache_sys as ffi;

use crate::error::{check, explained, text, Result};
use crate::output::{output, unix_time};
use crate::{Cache, Checksums};

/// What a cache is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    /// Of the bytes in shared memory.
    pub format_version: u32,
    /// Entries.
    pub length: usize,
    /// Room for samples, in bytes.
    pub capacity_bytes: u64,
    /// As created; 0: samples of any size.
    pub sample_bytes: u64,
    /// Largest sample, the creator's 0 resolved.
    pub sample_bytes_max: u64,
    /// The unit in which memory is reserved.
    pub step_bytes: u64,
    /// Units in all.
    pub steps: u64,
    /// Apparent size of the file.
    pub file_bytes: u64,
    /// What header, client records and entries take.
    pub control_bytes: u64,
    /// The creator's.
    pub job_id: u64,
    /// When it was made.
    pub created_at: SystemTime,
    /// In the creator's PID namespace.
    pub creator_pid: i32,
    /// Processes that may be attached at one time.
    pub clients_max: u32,
    /// Processes that are, as far as anyone has noticed.
    pub clients_attached: u32,
    /// Whether this handle made the cache.
    pub created: bool,
    /// Whether it was there already and nobody was attached to it.
    pub adopted: bool,
    /// Whether samples can be removed.
    pub droppable: bool,
    /// Whether it stays when the last client leaves.
    pub keep: bool,
    /// Whether samples have keys.
    pub keyed: bool,
    /// Different for every cache ever made; 36 characters.
    pub uuid: String,
    /// Its name.
    pub name: String,
    /// Its fingerprint; empty where it has none.
    pub fingerprint: String,
    /// Keys that have an index, as counted: a kill may have cost a count.
    pub keys: u64,
    /// Whether samples carry a checksum, and when it is compared.
    pub checksums: Checksums,
    /// Whether this handle was attached read only.
    pub read_only: bool,
    /// The largest page that maps samples in this process now where the cache was made with
    /// `huge_pages`; else the page size of the file system.
    pub page_bytes: u64,
    /// NUMA nodes over which samples are spread; 1: not spread.
    pub numa_nodes: u32,
}

/// Counts of a cache. Some of the last moment may be missing; none is invented.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Fills that are neither committed nor aborted, of all clients.
    pub open_fills: u32,
    /// Samples found.
    pub hits: u64,
    /// Samples not found.
    pub misses: u64,
    /// Samples stored.
    pub fills: u64,
    /// Fills given up, failed loaders included.
    pub aborts: u64,
    /// Times that a caller waited for another filler.
    pub waits: u64,
    /// Calls that ended as busy.
    pub timeouts: u64,
    /// Loads that were decoded without being cached, for want of room.
    pub bypasses: u64,
    /// Samples removed.
    pub removed: u64,
    /// Unfinished fills taken from dead clients.
    pub takeovers: u64,
    /// Bytes stored, array data only.
    pub bytes_filled: u64,
    /// Bytes copied out by C's read, and by batches.
    pub bytes_copied: u64,
    /// Samples in the cache now, as counted; the same in both scopes.
    pub resident: u64,
    /// Memory taken from the file system now; the same in both scopes.
    pub reserved_bytes: u64,
    /// Of the open fills; zero where there is none; the same in both scopes.
    pub oldest_fill_age: Duration,
    /// Samples given up because their record, or its checksum, was not what it must be.
    pub damaged: u64,
}

/// What [`Cache::check`] found in a cache that is sound.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Client records in use.
    pub clients: u32,
    /// Of these: ended without leaving, or lost their lock.
    pub clients_dead: u64,
    /// Samples stored.
    pub entries_ready: u64,
    /// Fills under way.
    pub entries_writing: u64,
    /// Fills of dead clients, to be taken over by the next caller.
    pub entries_orphaned: u64,
    /// Entries given up because their record was not sound.
    pub entries_bad: u64,
    /// Pieces of memory that an entry holds.
    pub extents_owned: u64,
    /// Pieces of memory that the next fill may have, in steps already reserved.
    pub extents_free: u64,
    /// Pieces that no entry holds but a client still looks at.
    pub extents_named: u64,
    /// Units of memory in use.
    pub steps_reserved: u64,
    /// Keys that have an index.
    pub keys: u64,
    /// Slots whose key is being written, or was when its process died: no damage.
    pub keys_unfinished: u64,
    /// Of `entries_ready`: on a disk that was not closed before the machine stopped, and not looked
    /// at since.
    pub entries_unverified: u64,
}

impl Cache {
    /// Describes the cache. Never blocks.
    pub fn info(&self) -> Result<Info> {
        // SAFETY: the handle is open; `raw` says how long it is.
        let raw = output(|raw| check(unsafe { ffi::dc_cache_info_get(self.as_raw(), raw) }))?;
        Ok(Info {
            format_version: raw.format_version,
            length: raw.length as usize,
            capacity_bytes: raw.capacity_bytes,
            sample_bytes: raw.sample_bytes,
            sample_bytes_max: raw.sample_bytes_max,
            step_bytes: raw.step_bytes,
            steps: raw.steps,
            file_bytes: raw.file_bytes,
            control_bytes: raw.control_bytes,
            job_id: raw.job_id,
            created_at: unix_time(raw.created_unix_ns),
            creator_pid: raw.creator_pid,
            clients_max: raw.clients_max,
            clients_attached: raw.clients_attached,
            created: raw.created != 0,
            adopted: raw.adopted != 0,
            droppable: raw.droppable != 0,
            keep: raw.keep != 0,
            keyed: raw.keyed != 0,
            uuid: text(&raw.uuid),
            name: text(&raw.name),
            fingerprint: text(&raw.fingerprint),
            keys: raw.keys,
            checksums: Checksums::of(raw.checksums)?,
            read_only: raw.read_only != 0,
            page_bytes: raw.page_bytes,
            numa_nodes: raw.numa_nodes,
        })
    }

    /// Counts of all clients since the cache was made. Never blocks.
    pub fn stats(&self) -> Result<Stats> {
        self.counted(ffi::DC_STATS_CACHE)
    }

    /// Counts of this process since it attached. Never blocks.
    pub fn client_stats(&self) -> Result<Stats> {
        self.counted(ffi::DC_STATS_CLIENT)
    }

    fn counted(&self, scope: i32) -> Result<Stats> {
        // SAFETY: the handle is open; `raw` says how long it is.
        let raw =
            output(|raw| check(unsafe { ffi::dc_cache_stats_get(self.as_raw(), scope, raw) }))?;
        Ok(Stats {
            open_fills: raw.open_fills,
            hits: raw.hits,
            misses: raw.misses,
            fills: raw.fills,
            aborts: raw.aborts,
            waits: raw.waits,
            timeouts: raw.timeouts,
            bypasses: raw.bypasses,
            removed: raw.removed,
            takeovers: raw.takeovers,
            bytes_filled: raw.bytes_filled,
            bytes_copied: raw.bytes_copied,
            resident: raw.resident,
            reserved_bytes: raw.reserved_bytes,
            oldest_fill_age: Duration::from_nanos(raw.oldest_fill_age_ns.max(0) as u64),
            damaged: raw.damaged,
        })
    }

    /// Compares all that the cache holds with one another, while others use it and whoever of them
    /// is killed, and every sample that has a checksum with that. Nothing is changed but that
    /// clients which have ended are noted as such.
    ///
    /// [`Damaged`](crate::ErrorKind::Damaged) with what is wrong and where, of several violations
    /// as many as fit.
    /// Never blocks; takes time in proportion to entries and reserved memory, and with checksums to
    /// the bytes of all samples.
    pub fn check(&self) -> Result<Report> {
        let raw = output(|raw| {
            // SAFETY: the handle is open; `raw` says how long it is.
            explained(|error| unsafe { ffi::dc_cache_check(self.as_raw(), raw, error) })
        })?;
        Ok(Report {
            clients: raw.clients,
            clients_dead: raw.clients_dead,
            entries_ready: raw.entries_ready,
            entries_writing: raw.entries_writing,
            entries_orphaned: raw.entries_orphaned,
            entries_bad: raw.entries_bad,
            extents_owned: raw.extents_owned,
            extents_free: raw.extents_free,
            extents_named: raw.extents_named,
            steps_reserved: raw.steps_reserved,
            keys: raw.keys,
            keys_unfinished: raw.keys_unfinished,
            entries_unverified: raw.entries_unverified,
        })
    }
}
