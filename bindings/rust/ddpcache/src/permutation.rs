//! The keyed bijection by itself.

use std::ptr::{self, NonNull};

use ddpcache_sys as ffi;

use crate::error::{check, explained, library_fits, Error, Result};

/// What a permutation is for. Equal other keys give unrelated permutations for different purposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The ring of the order `Node`: seed is the ring seed, epoch and window are 0.
    Ring,
    /// The order inside a window.
    Inner,
    /// Anything of the caller's.
    User,
}

/// A permutation of 0..length that belongs to a key: constant memory, under 20 KiB, and constant
/// time at any position, forwards and backwards. The same on every platform and release.
///
/// ```
/// use ddpcache::{Permutation, Purpose};
/// # fn main() -> ddpcache::Result<()> {
/// let order = Permutation::new(1_000_000_000_000, 7, 0, 0, Purpose::User)?;
/// assert_eq!(order.inverse(order.at(123_456_789)?)?, 123_456_789);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Permutation {
    raw: NonNull<ffi::dc_permutation>,
}

// SAFETY: ordinary memory, tied to no thread.
unsafe impl Send for Permutation {}
// SAFETY: all calls but close only read, and the library allows them in any number of threads.
unsafe impl Sync for Permutation {}

impl Permutation {
    /// Opens the permutation of a key: `length` up to 2^62, any `seed`, `epoch` up to 2^40 - 1, any
    /// `window`. [`Range`](crate::ErrorKind::Range), [`NoMemory`](crate::ErrorKind::NoMemory).
    /// Never blocks.
    pub fn new(
        length: usize,
        seed: u64,
        epoch: u64,
        window: u32,
        purpose: Purpose,
    ) -> Result<Permutation> {
        library_fits()?;
        let purpose = match purpose {
            Purpose::Ring => ffi::DC_PURPOSE_RING,
            Purpose::Inner => ffi::DC_PURPOSE_INNER,
            Purpose::User => ffi::DC_PURPOSE_USER,
        };
        let mut raw = ptr::null_mut();
        let (length, epoch) = (length as i64, i64::try_from(epoch).unwrap_or(i64::MAX));
        // SAFETY: both pointers are to values of ours.
        explained(|error| unsafe {
            ffi::dc_permutation_open(length, seed, epoch, window, purpose, &mut raw, error)
        })?;
        match NonNull::new(raw) {
            Some(raw) => Ok(Permutation { raw }),
            None => Err(Error::of(ffi::DC_ERROR_INTERNAL)),
        }
    }

    /// The index at a position; [`Range`](crate::ErrorKind::Range) past the end.
    pub fn at(&self, position: usize) -> Result<usize> {
        let mut index = 0;
        // SAFETY: the handle is open.
        check(unsafe { ffi::dc_permutation_at(self.raw.as_ptr(), position as i64, &mut index) })?;
        Ok(index as usize)
    }

    /// The position of an index; [`Range`](crate::ErrorKind::Range) past the end.
    pub fn inverse(&self, index: usize) -> Result<usize> {
        let mut position = 0;
        // SAFETY: the handle is open.
        check(unsafe {
            ffi::dc_permutation_inverse(self.raw.as_ptr(), index as i64, &mut position)
        })?;
        Ok(position as usize)
    }

    /// Copies the indices from `position` on, at about a nanosecond each.
    /// [`Range`](crate::ErrorKind::Range) where there are fewer.
    pub fn read(&self, position: usize, indices: &mut [usize]) -> Result<()> {
        // SAFETY: the handle is open; an index is as wide as C's, never negative, and there is room
        // for this many.
        check(unsafe {
            ffi::dc_permutation_batch(
                self.raw.as_ptr(),
                position as i64,
                indices.as_mut_ptr().cast(),
                indices.len() as i64,
            )
        })
        .map(drop)
    }
}

impl Drop for Permutation {
    fn drop(&mut self) {
        // SAFETY: open, and ours alone.
        unsafe { ffi::dc_permutation_close(self.raw.as_ptr()) };
    }
}
