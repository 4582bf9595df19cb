//! A cache to a file and back, so that a run next week starts warm.

use std::any::Any;
use std::ffi::c_void;
use std::ops::ControlFlow;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::Path;
use std::ptr;

use ddpcache_sys as ffi;

use crate::builder::opened;
use crate::error::{c_path, explained, pointer, Error, Result};
use crate::{Cache, CacheBuilder};

impl Cache {
    /// Writes every sample that is in the cache to a file, which is then there as a whole; how
    /// many. A file of this name is replaced, but not before the new one is complete.
    ///
    /// Others may fill, read and remove meanwhile. Blocks for as long as reading the samples and
    /// writing them to disk takes; signals do not interrupt it.
    /// [`NoSpace`](crate::ErrorKind::NoSpace) with what is needed and free;
    /// [`Argument`](crate::ErrorKind::Argument) for a path that leads to no ordinary file;
    /// [`Unregistered`](crate::ErrorKind::Unregistered), [`System`](crate::ErrorKind::System),
    /// [`NoMemory`](crate::ErrorKind::NoMemory).
    pub fn save(&self, path: impl AsRef<Path>) -> Result<usize> {
        let saved = self.save_with(path, |_, _| ControlFlow::<()>::Continue(()))?;
        saved.into_result()
    }

    /// As [`save`](Self::save), while `progress` hears how many bytes are done, and how many there
    /// are in all, as estimated: at the start, about ten times a second, and at the end. It may use
    /// any cache. Where it breaks, nothing has changed, and what it broke with is returned; where it
    /// panics, the panic goes on from here.
    pub fn save_with<B>(
        &self,
        path: impl AsRef<Path>,
        progress: impl FnMut(u64, u64) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B, usize>> {
        let path = c_path("path", path.as_ref())?;
        let mut saved = 0;
        let flow = with_progress(progress, |function, user| {
            // SAFETY: the handle is open; the path ends in NUL; `user` belongs to `function`.
            explained(|error| unsafe {
                ffi::dc_cache_save(
                    self.as_raw(),
                    path.as_ptr(),
                    function,
                    user,
                    &mut saved,
                    error,
                )
            })
        })?;
        Ok(match flow {
            ControlFlow::Continue(_) => ControlFlow::Continue(saved as usize),
            ControlFlow::Break(why) => ControlFlow::Break(why),
        })
    }
}

impl CacheBuilder {
    /// Opens a cache with the samples of a saved file: creates it, or attaches to the one that is
    /// there.
    ///
    /// All processes of a job can make the same call at once: one reads the file, and the others
    /// wait for it and attach. What the builder does not set (length, capacity, sizes, fingerprint)
    /// is as it was saved. Where [`info().created`](crate::Info::created) this call has read the
    /// file.
    ///
    /// Blocks for as long as reading the file takes. Errors as [`open`](Self::open), and
    /// [`NotFound`](crate::ErrorKind::NotFound), [`Damaged`](crate::ErrorKind::Damaged) with what
    /// is wrong with the file and where, [`Format`](crate::ErrorKind::Format),
    /// [`TooLarge`](crate::ErrorKind::TooLarge).
    pub fn restore(&self, path: impl AsRef<Path>) -> Result<Cache> {
        let restored = self.restore_with(path, |_, _| ControlFlow::<()>::Continue(()))?;
        restored.into_result()
    }

    /// As [`restore`](Self::restore), with progress as in [`Cache::save_with`]. While another
    /// process restores the cache, its progress is heard.
    pub fn restore_with<B>(
        &self,
        path: impl AsRef<Path>,
        progress: impl FnMut(u64, u64) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B, Cache>> {
        let options = self.options()?;
        let texts = self.texts()?;
        let path = c_path("path", path.as_ref())?;
        let mut restored = None;
        let flow = with_progress(progress, |function, user| {
            restored = opened(|cache, error| {
                // SAFETY: texts end in NUL or are NULL; `user` belongs to `function`; the other
                // pointers are to values of ours.
                unsafe {
                    ffi::dc_cache_restore(
                        path.as_ptr(),
                        texts.name.as_ptr(),
                        pointer(&texts.directory),
                        pointer(&texts.fingerprint),
                        &options,
                        function,
                        user,
                        cache,
                        error,
                    )
                }
            })?;
            Ok(if restored.is_some() {
                ffi::DC_OK
            } else {
                ffi::DC_INTERRUPTED
            })
        })?;
        match (flow, restored) {
            (ControlFlow::Break(why), _) => Ok(ControlFlow::Break(why)),
            (ControlFlow::Continue(_), Some(cache)) => Ok(ControlFlow::Continue(cache)),
            (ControlFlow::Continue(_), None) => Err(Error::of(ffi::DC_ERROR_INTERNAL)),
        }
    }
}

/// What is left where the progress never breaks.
trait IntoResult<T> {
    fn into_result(self) -> Result<T>;
}

impl<T> IntoResult<T> for ControlFlow<(), T> {
    fn into_result(self) -> Result<T> {
        match self {
            ControlFlow::Continue(value) => Ok(value),
            ControlFlow::Break(()) => Err(Error::of(ffi::DC_INTERRUPTED)),
        }
    }
}

/// A progress on its way through C, and what it leaves for the caller.
struct ProgressCall<F, B> {
    progress: F,
    broke: Option<B>,
    panic: Option<Box<dyn Any + Send>>,
}

/// Makes a call that tells its progress.
fn with_progress<F, B>(
    progress: F,
    call: impl FnOnce(ffi::dc_progress, *mut c_void) -> Result<i32>,
) -> Result<ControlFlow<B>>
where
    F: FnMut(u64, u64) -> ControlFlow<B>,
{
    let mut own = ProgressCall {
        progress,
        broke: None,
        panic: None,
    };
    let result = call(Some(run_progress::<F, B>), ptr::from_mut(&mut own).cast());
    if let Some(panic) = own.panic {
        resume_unwind(panic);
    }
    match (result?, own.broke) {
        (ffi::DC_OK, None) => Ok(ControlFlow::Continue(())),
        (ffi::DC_INTERRUPTED, Some(why)) => Ok(ControlFlow::Break(why)),
        (status, _) => Err(Error::of(status)),
    }
}

/// # Safety
/// `user` must be the `ProgressCall` of these types, not used by anyone else until it returns.
unsafe extern "C" fn run_progress<F, B>(done: u64, total: u64, user: *mut c_void) -> i32
where
    F: FnMut(u64, u64) -> ControlFlow<B>,
{
    // SAFETY: as the caller promises.
    let call = unsafe { &mut *user.cast::<ProgressCall<F, B>>() };
    let progress = &mut call.progress;
    // As for a loader: who sees what a panic leaves half done sees the panic.
    match catch_unwind(AssertUnwindSafe(|| progress(done, total))) {
        Ok(ControlFlow::Continue(())) => return 0,
        Ok(ControlFlow::Break(why)) => call.broke = Some(why),
        Err(panic) => call.panic = Some(panic),
    }
    1
}
