//! Samples that have names instead of numbers.

use ddpcache_sys as ffi;

use crate::error::{check, Result};
use crate::view::empty_view;
use crate::{Cache, View};

/// In a cache opened with [`keyed`](crate::CacheBuilder::keyed); in any other these are
/// [`Unsupported`](crate::ErrorKind::Unsupported). Text is its UTF-8; docs/format.md has what other
/// languages make of numbers and tuples. None of them blocks.
impl Cache {
    /// The index of a key, which is given one if it has none; `None` where all are taken, and for a
    /// new key where the cache was attached read only.
    ///
    /// The same for every process, for as long as the cache exists; it has no sample yet unless
    /// somebody has filled it. Keys are known by their 128-bit hash, and never forgotten.
    pub fn intern(&self, key: impl AsRef<[u8]>) -> Result<Option<usize>> {
        let (key, mut index) = (key.as_ref(), 0);
        // SAFETY: the handle is open; the key has this length; `index` is ours.
        let status = check(unsafe {
            ffi::dc_cache_intern(self.as_raw(), key.as_ptr(), key.len() as u64, &mut index)
        })?;
        Ok((status == ffi::DC_OK).then_some(index as usize))
    }

    /// The index of a key, or `None` where it has none. Changes nothing.
    pub fn lookup(&self, key: impl AsRef<[u8]>) -> Result<Option<usize>> {
        let (key, mut index) = (key.as_ref(), 0);
        // SAFETY: as for `intern`.
        let status = check(unsafe {
            ffi::dc_cache_lookup(self.as_raw(), key.as_ptr(), key.len() as u64, &mut index)
        })?;
        Ok((status == ffi::DC_OK).then_some(index as usize))
    }

    /// A look at the sample of a key, or `None` where it is not in the cache.
    pub fn view_key(&self, key: impl AsRef<[u8]>) -> Result<Option<View<'_>>> {
        let (key, mut view) = (key.as_ref(), empty_view());
        // SAFETY: as for `intern`; `view` is ours.
        let status = check(unsafe {
            ffi::dc_cache_view_key(self.as_raw(), key.as_ptr(), key.len() as u64, &mut view)
        })?;
        Ok((status == ffi::DC_OK).then(|| View::new(view)))
    }
}
