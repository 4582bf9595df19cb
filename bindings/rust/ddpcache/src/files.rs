//! Caches and saved files by name.

use std::ffi::CStr;
use std::path::Path;
use std::time::SystemTime;

use ddpcache_sys as ffi;

use crate::error::{c_path, c_text, explained, library_fits, pointer, text, Error, Result};
use crate::output::{output, unix_time};

/// The loaded library's version, such as "0.1.0".
pub fn version() -> Result<&'static str> {
    library_fits()?;
    // SAFETY: static text that ends in NUL.
    let version = unsafe { CStr::from_ptr(ffi::dc_version()) };
    version
        .to_str()
        .map_err(|_| Error::of(ffi::DC_ERROR_INTERNAL))
}

/// Removes a cache's name at once, kept or not; `false` where there was none. Processes that have
/// it open go on with it. `directory` is `None` for shared memory.
///
/// May block for up to 10 s where another process holds the user's lock file
/// ([`Locked`](crate::ErrorKind::Locked)). [`Name`](crate::ErrorKind::Name),
/// [`Permission`](crate::ErrorKind::Permission), [`Unsupported`](crate::ErrorKind::Unsupported),
/// [`System`](crate::ErrorKind::System).
pub fn unlink(name: &str, directory: Option<&Path>) -> Result<bool> {
    library_fits()?;
    let name = c_text("name", name.as_bytes())?;
    let directory = directory.map(|at| c_path("directory", at)).transpose()?;
    // SAFETY: texts end in NUL or are NULL.
    let unlinked = explained(|error| unsafe {
        ffi::dc_cache_unlink(name.as_ptr(), pointer(&directory), error)
    });
    match unlinked {
        Err(error) if error.status() == ffi::DC_ERROR_NOT_FOUND => Ok(false),
        other => other.map(|_| true),
    }
}

/// Removes every cache of this user that nobody is attached to and that is not kept; how many.
/// Every creation does this too. Blocks and errors as [`unlink`].
pub fn collect_garbage(directory: Option<&Path>) -> Result<usize> {
    library_fits()?;
    let directory = directory.map(|at| c_path("directory", at)).transpose()?;
    let mut removed = 0;
    // SAFETY: the text ends in NUL or is NULL; `removed` is ours.
    explained(|error| unsafe { ffi::dc_cache_gc(pointer(&directory), &mut removed, error) })?;
    Ok(removed as usize)
}

/// The names of this user's caches, sorted.
pub fn list(directory: Option<&Path>) -> Result<Vec<String>> {
    library_fits()?;
    let directory = directory.map(|at| c_path("directory", at)).transpose()?;
    let mut buffer = vec![0u8; 4096];
    loop {
        let mut needed = 0;
        let (to, room) = (buffer.as_mut_ptr(), buffer.len() as u64);
        // SAFETY: the text ends in NUL or is NULL; the buffer has this room.
        let listed = explained(|error| unsafe {
            ffi::dc_cache_list(pointer(&directory), to, room, &mut needed, error)
        });
        match listed {
            // Caches may have come meanwhile.
            Err(error) if error.status() == ffi::DC_ERROR_BUFFER => {
                buffer.resize(needed as usize + 4096, 0);
            }
            Err(error) => return Err(error),
            Ok(_) => {
                let names = String::from_utf8_lossy(&buffer[..needed as usize]).into_owned();
                return Ok(names.lines().map(str::to_owned).collect());
            }
        }
    }
}

/// What is in a saved file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SavedInfo {
    /// Version of the file's format.
    pub version: u32,
    /// Entries of the cache that was saved.
    pub length: usize,
    /// Samples that are in the file.
    pub samples: usize,
    /// As the cache was created; 0: samples of any size.
    pub sample_bytes: u64,
    /// Its largest sample.
    pub sample_bytes_max: u64,
    /// Its room for samples.
    pub capacity_bytes: u64,
    /// Bytes of all samples as stored.
    pub record_bytes: u64,
    /// Bytes of the largest sample as stored.
    pub largest_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// When it was saved.
    pub saved: SystemTime,
    /// Whether samples could be removed.
    pub droppable: bool,
    /// Whether samples have keys.
    pub keyed: bool,
    /// Keys that have an index.
    pub keys: u64,
    /// Version of the library that saved it.
    pub library: String,
    /// Of the cache that was saved.
    pub uuid: String,
    /// Of the cache that was saved.
    pub name: String,
    /// Of the cache that was saved; empty where it had none.
    pub fingerprint: String,
}

/// Describes a saved file by its header: what follows that is neither read nor compared.
///
/// [`NotFound`](crate::ErrorKind::NotFound), [`Damaged`](crate::ErrorKind::Damaged),
/// [`Format`](crate::ErrorKind::Format), [`Argument`](crate::ErrorKind::Argument),
/// [`System`](crate::ErrorKind::System). Blocks for as long as the file system takes.
pub fn saved_info(path: impl AsRef<Path>) -> Result<SavedInfo> {
    library_fits()?;
    let path = c_path("path", path.as_ref())?;
    let raw = output(|raw: *mut ffi::dc_saved_info| {
        // SAFETY: the path ends in NUL; `raw` is ours, and says how long it is.
        explained(|error| unsafe { ffi::dc_saved_info_get(path.as_ptr(), raw, error) })
    })?;
    Ok(SavedInfo {
        version: raw.version,
        length: raw.length as usize,
        samples: raw.samples as usize,
        sample_bytes: raw.sample_bytes,
        sample_bytes_max: raw.sample_bytes_max,
        capacity_bytes: raw.capacity_bytes,
        record_bytes: raw.record_bytes,
        largest_bytes: raw.largest_bytes,
        file_bytes: raw.file_bytes,
        saved: unix_time(raw.saved_unix_ns),
        droppable: raw.droppable != 0,
        keyed: raw.keyed != 0,
        keys: raw.keys,
        library: text(&raw.library),
        uuid: text(&raw.uuid),
        name: text(&raw.name),
        fingerprint: text(&raw.fingerprint),
    })
}
