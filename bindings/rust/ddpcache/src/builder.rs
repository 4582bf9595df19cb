//! Where and what a cache is.

use std::ffi::CString;
use std::mem::{size_of, MaybeUninit};
use std::path::PathBuf;
use std::ptr::{self, NonNull};
use std::time::Duration;

use ddpcache_sys as ffi;

use crate::error::{c_path, c_text, check, explained, library_fits, pointer, Error, Result};
use crate::Cache;

/// What guards the bytes of samples against damage: by hardware, by a program that writes where it
/// should not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksums {
    /// Nothing, or on a disk the same as `Fill`.
    #[default]
    Off,
    /// A commit takes a checksum of the sample, which [`Cache::check`] compares.
    Fill,
    /// Besides, every hit compares it first: a damaged sample is given up, and is a miss. A hit
    /// then costs in proportion to the sample's size.
    Read,
}

impl Checksums {
    pub(crate) fn raw(self) -> u32 {
        let number = match self {
            Checksums::Off => ffi::DC_CHECKSUMS_OFF,
            Checksums::Fill => ffi::DC_CHECKSUMS_FILL,
            Checksums::Read => ffi::DC_CHECKSUMS_READ,
        };
        number as u32
    }

    pub(crate) fn of(number: u32) -> Result<Checksums> {
        [Checksums::Off, Checksums::Fill, Checksums::Read]
            .into_iter()
            .find(|each| each.raw() == number)
            .ok_or_else(|| Error::new(ffi::DC_ERROR_INTERNAL, format!("checksums are {number}")))
    }
}

/// Where a cache is and what it shall be: made by [`Cache::builder`], ended by one of
/// [`open`](Self::open), [`attach`](Self::attach), [`attach_read_only`](Self::attach_read_only) and
/// [`restore`](Self::restore).
///
/// Those marked *identity* must be the same for all who share a cache.
#[derive(Clone, Debug)]
#[must_use]
pub struct CacheBuilder {
    pub(crate) name: String,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) fingerprint: Option<String>,
    length: usize,
    capacity_bytes: u64,
    sample_bytes: u64,
    sample_bytes_max: u64,
    timeout: Duration,
    clients_max: u32,
    job_id: u64,
    keep: bool,
    partial: bool,
    droppable: bool,
    keyed: bool,
    checksums: Checksums,
    interleave: bool,
    huge_pages: bool,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $kind:ty,)*) => {$(
        $(#[$doc])*
        pub fn $name(mut self, $name: $kind) -> Self {
            self.$name = $name;
            self
        }
    )*};
}

impl CacheBuilder {
    pub(crate) fn new(name: String) -> CacheBuilder {
        CacheBuilder {
            name,
            directory: None,
            fingerprint: None,
            length: 0,
            capacity_bytes: 0,
            sample_bytes: 0,
            sample_bytes_max: 0,
            timeout: Duration::from_secs(10),
            clients_max: 0,
            job_id: 0,
            keep: false,
            partial: false,
            droppable: false,
            keyed: false,
            checksums: Checksums::Off,
            interleave: false,
            huge_pages: false,
        }
    }

    /// A directory of your own for its file, on a tmpfs, a hugetlbfs or a local disk with ext4 or
    /// xfs. Without it the cache is in shared memory, /dev/shm.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// What identifies the data: data set, version, deterministic transform; up to 1,024 bytes.
    /// Identity. Without one a cache that nobody has open is never used again.
    pub fn fingerprint(mut self, fingerprint: impl Into<String>) -> Self {
        self.fingerprint = Some(fingerprint.into());
        self
    }

    setters! {
        /// Entries: 1 to 2^34 - 1. Identity.
        length: usize,
        /// Bytes for samples. 0, the default: half of what file system, cgroup and machine have
        /// free. The creator's counts.
        capacity_bytes: u64,
        /// 0, the default: samples of any size. Else every sample's arrays, each rounded up to 64
        /// bytes, add up to at most this, and the memory is cut into equal pieces. Identity.
        sample_bytes: u64,
        /// Largest sample in bytes, up to 2^32. 0, the default: capacity/256, or `sample_bytes` if
        /// that is set. Identity if not 0.
        sample_bytes_max: u64,
        /// How long the call may wait for the user's lock file; 10 s by default.
        timeout: Duration,
        /// Processes that may be attached at one time: 1 to 4,095. 0, the default: 1,024.
        clients_max: u32,
        /// Any number that the processes of one job share; [`Cache::info`] shows the creator's.
        job_id: u64,
        /// Whether the cache stays when its last client has left, until it is unlinked, or a reboot
        /// if it is in memory.
        keep: bool,
        /// Whether to take what is free where `capacity_bytes` is more, instead of failing.
        partial: bool,
        /// Whether samples can be removed. Identity.
        droppable: bool,
        /// Whether samples have keys, see [`Cache::intern`]; `length` should then be 1.3 times
        /// their number. Identity.
        keyed: bool,
        /// Whether samples carry a checksum, and when it is compared. Identity.
        checksums: Checksums,
        /// Whether to spread the samples' memory over all NUMA nodes that the process may use. A
        /// wish: [`Info::numa_nodes`](crate::Info::numa_nodes) says what was obtained.
        interleave: bool,
        /// Whether to ask for transparent huge pages. A wish:
        /// [`Info::page_bytes`](crate::Info::page_bytes) says what was obtained.
        huge_pages: bool,
    }

    /// Opens the cache of this name, or creates it. [`length`](Self::length) must be set.
    ///
    /// Exactly one of any number of processes that call this at once creates it, and the others
    /// attach. A cache in use must have the same identity. One that no process has open is used
    /// again if its identity is the same and it has a fingerprint, and is replaced otherwise.
    ///
    /// Blocks up to [`timeout`](Self::timeout), and while memory for the entries is reserved.
    /// Errors: [`Argument`](crate::ErrorKind::Argument), [`Range`](crate::ErrorKind::Range),
    /// [`Name`](crate::ErrorKind::Name); [`Mismatch`](crate::ErrorKind::Mismatch) and
    /// [`Fingerprint`](crate::ErrorKind::Fingerprint), with both values;
    /// [`NoSpace`](crate::ErrorKind::NoSpace) with what is there, what is needed and the remedy;
    /// [`Format`](crate::ErrorKind::Format), [`Damaged`](crate::ErrorKind::Damaged),
    /// [`Permission`](crate::ErrorKind::Permission), [`Clients`](crate::ErrorKind::Clients),
    /// [`Locked`](crate::ErrorKind::Locked), [`Unsupported`](crate::ErrorKind::Unsupported),
    /// [`System`](crate::ErrorKind::System), [`NoMemory`](crate::ErrorKind::NoMemory).
    pub fn open(&self) -> Result<Cache> {
        let options = self.options()?;
        let texts = self.texts()?;
        opened(|cache, error| {
            // SAFETY: texts end in NUL or are NULL; the other pointers are to values of ours.
            unsafe {
                ffi::dc_cache_open(
                    texts.name.as_ptr(),
                    pointer(&texts.directory),
                    pointer(&texts.fingerprint),
                    &options,
                    cache,
                    error,
                )
            }
        })
        .map(|opened| opened.expect("open is not interrupted"))
    }

    /// Attaches to a cache that is in use or kept, whatever its options and fingerprint.
    ///
    /// Blocks and errors as [`open`](Self::open); [`NotFound`](crate::ErrorKind::NotFound) where
    /// there is none.
    pub fn attach(&self) -> Result<Cache> {
        self.attached(ffi::dc_cache_attach)
    }

    /// Attaches to a cache that is in use or kept, to look only: its memory is mapped without the
    /// right to write.
    ///
    /// A miss of [`Cache::load`] then runs the loader without a claim, and `allocate` gives it
    /// `None`; fills and removals are [`Unsupported`](crate::ErrorKind::Unsupported). In a
    /// droppable cache each view is a private copy. Blocks and errors as [`attach`](Self::attach).
    pub fn attach_read_only(&self) -> Result<Cache> {
        self.attached(ffi::dc_cache_attach_read_only)
    }

    fn attached(
        &self,
        attach: unsafe extern "C" fn(
            *const std::ffi::c_char,
            *const std::ffi::c_char,
            i64,
            *mut *mut ffi::dc_cache,
            *mut ffi::dc_error,
        ) -> i32,
    ) -> Result<Cache> {
        library_fits()?;
        let texts = self.texts()?;
        opened(|cache, error| {
            let (name, directory) = (texts.name.as_ptr(), pointer(&texts.directory));
            // SAFETY: one of the library's two functions of this form; texts end in NUL or are
            // NULL; the other pointers are to values of ours.
            unsafe { attach(name, directory, self.timeout_ns(), cache, error) }
        })
        .map(|opened| opened.expect("attach is not interrupted"))
    }

    /// How large a cache must be for all of its samples to fit: the capacity to ask for, and what
    /// the cache then takes in all, in bytes.
    ///
    /// `sample_bytes` is what every sample's arrays take, each rounded up to 64. In pages of 4 KiB
    /// and on a disk; huge pages may need more. Never blocks.
    pub fn estimate(&self, sample_bytes: u64) -> Result<(u64, u64)> {
        let options = self.options()?;
        let (mut capacity, mut total) = (0, 0);
        // SAFETY: all pointers are to values of ours.
        explained(|error| unsafe {
            ffi::dc_cache_estimate(&options, sample_bytes, &mut capacity, &mut total, error)
        })?;
        Ok((capacity, total))
    }

    fn timeout_ns(&self) -> i64 {
        i64::try_from(self.timeout.as_nanos()).unwrap_or(i64::MAX)
    }

    pub(crate) fn options(&self) -> Result<ffi::dc_cache_options> {
        library_fits()?;
        let mut options = MaybeUninit::<ffi::dc_cache_options>::zeroed();
        let size = size_of::<ffi::dc_cache_options>() as u32;
        // SAFETY: memory of ours, of this size.
        check(unsafe { ffi::dc_cache_options_init(options.as_mut_ptr(), size) })?;
        // SAFETY: all numbers, for which zeros are values, and what the call has set.
        let defaults = unsafe { options.assume_init() };
        Ok(ffi::dc_cache_options {
            clients_max: self.clients_max,
            length: i64::try_from(self.length).unwrap_or(i64::MAX),
            capacity_bytes: self.capacity_bytes,
            sample_bytes: self.sample_bytes,
            sample_bytes_max: self.sample_bytes_max,
            timeout_ns: self.timeout_ns(),
            job_id: self.job_id,
            keep: self.keep.into(),
            partial: self.partial.into(),
            droppable: self.droppable.into(),
            keyed: self.keyed.into(),
            checksums: self.checksums.raw(),
            interleave: self.interleave.into(),
            huge_pages: self.huge_pages.into(),
            ..defaults
        })
    }

    pub(crate) fn texts(&self) -> Result<Texts> {
        let fingerprint = self.fingerprint.as_ref();
        Ok(Texts {
            name: c_text("name", self.name.as_bytes())?,
            directory: self
                .directory
                .as_ref()
                .map(|at| c_path("directory", at))
                .transpose()?,
            fingerprint: fingerprint
                .map(|text| c_text("fingerprint", text.as_bytes()))
                .transpose()?,
        })
    }
}

pub(crate) struct Texts {
    pub name: CString,
    pub directory: Option<CString>,
    pub fingerprint: Option<CString>,
}

/// Makes a call that opens a cache; `None` where it was interrupted.
pub(crate) fn opened(
    call: impl FnOnce(*mut *mut ffi::dc_cache, *mut ffi::dc_error) -> i32,
) -> Result<Option<Cache>> {
    let mut cache = ptr::null_mut();
    let status = explained(|error| call(&mut cache, error))?;
    match (status, NonNull::new(cache)) {
        // SAFETY: the library has opened it for us.
        (ffi::DC_OK, Some(cache)) => Ok(Some(unsafe { Cache::new(cache) })),
        (ffi::DC_INTERRUPTED, _) => Ok(None),
        (status, _) => Err(Error::of(status)),
    }
}
