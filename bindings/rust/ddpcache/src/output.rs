//! Structs that the library writes, and that grow in later versions.

use std::mem::{size_of, MaybeUninit};
use std::time::{Duration, SystemTime};

use ddpcache_sys as ffi;

use crate::error::Result;

/// A struct that says how large its caller knows it to be.
///
/// # Safety
/// It must consist of numbers only, for which zeros are values, and begin with a `u32` for its size.
pub(crate) unsafe trait Output {}

// SAFETY: of each, numbers only, and `struct_size` first: see the assertions of ddpcache-sys.
unsafe impl Output for ffi::dc_cache_info {}
// SAFETY: as above.
unsafe impl Output for ffi::dc_cache_stats {}
// SAFETY: as above.
unsafe impl Output for ffi::dc_cache_report {}
// SAFETY: as above.
unsafe impl Output for ffi::dc_saved_info {}
// SAFETY: as above.
unsafe impl Output for ffi::dc_topology {}

/// What a call wrote into a struct that says its size.
pub(crate) fn output<T: Output>(call: impl FnOnce(*mut T) -> Result<i32>) -> Result<T> {
    let mut raw = MaybeUninit::<T>::zeroed();
    // SAFETY: memory of ours, which begins with the size.
    unsafe { raw.as_mut_ptr().cast::<u32>().write(size_of::<T>() as u32) };
    call(raw.as_mut_ptr())?;
    // SAFETY: all numbers, which are zeros or what the call wrote.
    Ok(unsafe { raw.assume_init() })
}

pub(crate) fn unix_time(nanoseconds: i64) -> SystemTime {
    let since = Duration::from_nanos(nanoseconds.unsigned_abs());
    if nanoseconds < 0 {
        SystemTime::UNIX_EPOCH - since
    } else {
        SystemTime::UNIX_EPOCH + since
    }
}
