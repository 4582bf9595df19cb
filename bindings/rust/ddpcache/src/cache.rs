//! A process's handle on a cache.

use std::any::Any;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr::{self, NonNull};
use std::time::{Duration, Instant};

use ddpcache_sys as ffi;

use crate::error::{check, Error, Result};
use crate::view::empty_view;
use crate::{CacheBuilder, Fill, Filling, View};

/// A cache of decoded samples that this process shares with all others that have it open.
///
/// Opened by [`Cache::builder`]. Any number of threads may use it at once; share it by reference or
/// in an `Arc`. Dropping it ends this process's use of it, and the last process's removes a cache
/// that is not kept; that may block for up to 100 ms, and of a kept cache on a disk until all of it
/// is written there. [`Cache::close`] does the same and says how it went. (A `static` is never
/// dropped: the file then stays until some process creates its next cache.)
#[derive(Debug)]
pub struct Cache {
    raw: NonNull<ffi::dc_cache>,
}

// SAFETY: the library lets any thread use and close a handle.
unsafe impl Send for Cache {}
// SAFETY: the library lets any number of threads use a handle at once; close, which must be alone,
// takes `self` or happens in drop.
unsafe impl Sync for Cache {}

/// How long to wait for another process, or thread, that is filling the sample.
///
/// A `Duration` waits that long, through all signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    timeout: Duration,
    interruptible: bool,
}

impl Wait {
    /// Waits that long, unless a signal arrives that has a handler: the call then comes back with
    /// `Interrupted`, so that a program can see to what its handler noted, and call again.
    pub fn interruptible(timeout: Duration) -> Wait {
        Wait {
            timeout,
            interruptible: true,
        }
    }

    /// Repeats a call that waits, with the time that is left, while signals that nobody asked for
    /// interrupt it.
    fn repeat(self, mut call: impl FnMut(i64) -> i32) -> i32 {
        let nanoseconds = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        let begin = Instant::now();
        let mut status = call(nanoseconds(self.timeout));
        while status == ffi::DC_INTERRUPTED && !self.interruptible {
            status = call(nanoseconds(self.timeout.saturating_sub(begin.elapsed())));
        }
        status
    }
}

impl From<Duration> for Wait {
    fn from(timeout: Duration) -> Wait {
        Wait {
            timeout,
            interruptible: false,
        }
    }
}

/// What a load came to.
#[derive(Debug)]
#[must_use]
pub enum Load<'cache> {
    /// The sample: found, or stored by this call's loader.
    Ready(View<'cache>),
    /// There is no room for it. The loader has run, and `allocate` has told it so.
    Full,
    /// Another client was still filling it at the deadline, or this thread has a fill open and so
    /// does not wait: decode it uncached.
    Busy,
    /// A signal arrived while waiting; only with [`Wait::interruptible`].
    Interrupted,
}

impl<'cache> Load<'cache> {
    /// The sample, if it is cached.
    pub fn view(self) -> Option<View<'cache>> {
        match self {
            Load::Ready(view) => Some(view),
            _ => None,
        }
    }

    /// The sample; anything else as an error, for programs that cannot do without.
    pub fn required(self) -> Result<View<'cache>> {
        match self {
            Load::Ready(view) => Ok(view),
            Load::Full => Err(Error::of(ffi::DC_FULL)),
            Load::Busy => Err(Error::of(ffi::DC_BUSY)),
            Load::Interrupted => Err(Error::of(ffi::DC_INTERRUPTED)),
        }
    }
}

/// What a claim came to.
#[derive(Debug)]
#[must_use]
pub enum Claim<'cache> {
    /// The entry is this caller's to fill.
    Fill(Fill<'cache>),
    /// The sample is in the cache already, perhaps by the client that was waited for.
    Present,
    /// Another client was still filling it at the deadline.
    Busy,
    /// The entry was given up because its record was damaged.
    Full,
    /// A signal arrived while waiting; only with [`Wait::interruptible`].
    Interrupted,
}

impl Cache {
    /// Where and what a cache of this name is, or shall be: 1 to 200 of A-Z a-z 0-9 . _ -
    pub fn builder(name: impl Into<String>) -> CacheBuilder {
        CacheBuilder::new(name.into())
    }

    /// # Safety
    /// The handle must be open, and nobody else's.
    pub(crate) unsafe fn new(raw: NonNull<ffi::dc_cache>) -> Cache {
        Cache { raw }
    }

    /// The handle for calls of [`ffi`]; it is closed when `self` is dropped.
    pub fn as_raw(&self) -> *mut ffi::dc_cache {
        self.raw.as_ptr()
    }

    /// Ends this process's use of the cache, as dropping it does, and says how that went.
    ///
    /// [`State`](crate::ErrorKind::State), with the handle left open for ever, where a fill of it
    /// was leaked.
    pub fn close(self) -> Result<()> {
        let this = ManuallyDrop::new(self);
        // SAFETY: open, ours alone, and not used again.
        check(unsafe { ffi::dc_cache_close(this.as_raw()) }).map(drop)
    }

    /// A look at a sample, or `None` where it is not in the cache. Never blocks.
    ///
    /// [`Range`](crate::ErrorKind::Range) where the index is not less than the cache's length.
    pub fn view(&self, index: usize) -> Result<Option<View<'_>>> {
        let mut view = empty_view();
        // SAFETY: the handle is open; `view` is ours.
        match unsafe { ffi::dc_cache_view(self.as_raw(), index as i64, &mut view) } {
            ffi::DC_OK => Ok(Some(View::new(view))),
            status => of_sample(index, status).map(|_| None),
        }
    }

    /// Whether a sample is in the cache. Never blocks.
    pub fn contains(&self, index: usize) -> Result<bool> {
        // SAFETY: the handle is open.
        let status = unsafe { ffi::dc_cache_contains(self.as_raw(), index as i64) };
        Ok(of_sample(index, status)? == ffi::DC_OK)
    }

    /// A look at a sample, which `loader` decodes first where nobody has: of any number of callers
    /// in all processes exactly one runs its loader, and the others wait.
    ///
    /// The loader asks for memory once it knows the shape, decodes into it and returns `Ok`. It
    /// runs on this thread with no lock held, and may use this or any cache, except to load the
    /// same index ([`Recursion`](crate::ErrorKind::Recursion)); while it runs this thread does not
    /// wait for others, but gets [`Load::Busy`]. If another process removes the sample at once, it
    /// runs again. Where it returns its own error, that is what `load` returns; where it panics, the
    /// panic goes on from here. Either way the entry is given back, empty, and the cache is as
    /// usable as before.
    ///
    /// Where the cache has no room the loader runs all the same, `allocate` gives it `None`, and
    /// the result is [`Load::Full`]: keep the decoded sample, since it cannot be cached.
    ///
    /// ```
    /// use std::time::Duration;
    /// use ddpcache::{Cache, Error, Load};
    ///
    /// # fn main() -> ddpcache::Result<()> {
    /// # let name = format!("doc-load-{}", std::process::id());
    /// let cache = Cache::builder(name).length(10).capacity_bytes(1 << 20).open()?;
    /// let mut own = None;
    /// let load = cache.load(7, Duration::from_secs(60), |filling| {
    ///     match filling.allocate::<u8>(&[2, 3])? {
    ///         Some(pixels) => pixels.fill(7),
    ///         None => own = Some(vec![7; 6]),
    ///     }
    ///     Ok::<_, Error>(())
    /// })?;
    /// match load {
    ///     Load::Ready(view) => assert_eq!(view.values::<u8>()?, [7; 6]),
    ///     Load::Full => assert!(own.is_some()),
    ///     Load::Busy | Load::Interrupted => {} // decode it here, uncached
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Blocks for as long as `wait` says, and while the loader runs. Errors besides the loader's:
    /// [`Range`](crate::ErrorKind::Range), [`Recursion`](crate::ErrorKind::Recursion),
    /// [`Loader`](crate::ErrorKind::Loader) where it allocated nothing,
    /// [`Lost`](crate::ErrorKind::Lost), [`Unregistered`](crate::ErrorKind::Unregistered),
    /// [`NoMemory`](crate::ErrorKind::NoMemory).
    pub fn load<E, F>(&self, index: usize, wait: impl Into<Wait>, loader: F) -> Result<Load<'_>, E>
    where
        F: FnMut(&mut Filling<'_>) -> Result<(), E>,
        E: From<Error>,
    {
        let mut call = LoaderCall {
            loader,
            failure: None,
            panic: None,
        };
        let mut view = empty_view();
        let status = wait.into().repeat(|timeout_ns| {
            let user = ptr::from_mut(&mut call).cast::<c_void>();
            // SAFETY: the handle is open; `user` is the LoaderCall of these types, which nothing
            // else touches until the library has returned; `view` is ours.
            unsafe {
                ffi::dc_cache_load(
                    self.as_raw(),
                    index as i64,
                    Some(run_loader::<F, E>),
                    user,
                    timeout_ns,
                    &mut view,
                )
            }
        });
        if let Some(panic) = call.panic {
            resume_unwind(panic);
        }
        if let Some(failure) = call.failure {
            return Err(failure);
        }
        match of_sample(index, status)? {
            ffi::DC_OK => Ok(Load::Ready(View::new(view))),
            ffi::DC_BUSY => Ok(Load::Busy),
            ffi::DC_FULL => Ok(Load::Full),
            ffi::DC_INTERRUPTED => Ok(Load::Interrupted),
            status => Err(Error::of(status).into()),
        }
    }

    /// Claims an empty entry, or waits for the client that has claimed it.
    ///
    /// For decoders that a loader does not suit; the fill must be committed, or is given back when
    /// dropped, on this thread. At most 64 are open in a process at one time
    /// ([`Fills`](crate::ErrorKind::Fills)); a thread that has one open does not wait for others.
    ///
    /// Blocks for as long as `wait` says. Errors: [`Range`](crate::ErrorKind::Range),
    /// [`Recursion`](crate::ErrorKind::Recursion), [`Unregistered`](crate::ErrorKind::Unregistered),
    /// [`Unsupported`](crate::ErrorKind::Unsupported) where the cache was attached read only.
    pub fn begin_fill(&self, index: usize, wait: impl Into<Wait>) -> Result<Claim<'_>> {
        let mut fill = ptr::null_mut();
        let status = wait.into().repeat(|timeout_ns| {
            // SAFETY: the handle is open; `fill` is ours.
            unsafe { ffi::dc_cache_fill_begin(self.as_raw(), index as i64, timeout_ns, &mut fill) }
        });
        match (of_sample(index, status)?, NonNull::new(fill)) {
            // SAFETY: begun on this thread just now, and nobody else's.
            (ffi::DC_OK, Some(fill)) => Ok(Claim::Fill(unsafe { Fill::new(fill) })),
            (ffi::DC_PRESENT, _) => Ok(Claim::Present),
            (ffi::DC_BUSY, _) => Ok(Claim::Busy),
            (ffi::DC_FULL, _) => Ok(Claim::Full),
            (ffi::DC_INTERRUPTED, _) => Ok(Claim::Interrupted),
            (status, _) => Err(Error::of(status)),
        }
    }

    /// Removes a sample from a droppable cache; `false` where it was not there, or is being filled.
    /// It is invisible at once; its memory is used again when no view of it is left. Never blocks.
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported) in a cache that is not droppable.
    pub fn remove(&self, index: usize) -> Result<bool> {
        // SAFETY: the handle is open.
        let status = unsafe { ffi::dc_cache_remove(self.as_raw(), index as i64) };
        Ok(of_sample(index, status)? == ffi::DC_OK)
    }

    /// Removes those of many samples that are there, in any order and with repeats; how many. All
    /// indices are checked before any sample is removed. Never blocks.
    pub fn remove_batch(&self, indices: &[usize]) -> Result<usize> {
        let mut removed = 0;
        // SAFETY: the handle is open; an index is as wide as C's, and there are this many.
        check(unsafe {
            ffi::dc_cache_remove_batch(
                self.as_raw(),
                indices.as_ptr().cast(),
                indices.len() as i64,
                &mut removed,
            )
        })?;
        Ok(removed as usize)
    }

    /// Removes all samples that are there; fills under way go on. How many. Never blocks.
    pub fn clear(&self) -> Result<usize> {
        let mut removed = 0;
        // SAFETY: the handle is open.
        check(unsafe { ffi::dc_cache_clear(self.as_raw(), &mut removed) })?;
        Ok(removed as usize)
    }

    /// Lets a thread of the library map the samples that are there into this process, so that its
    /// first pass takes no page faults. The thread ends by itself, or with the cache. Never blocks.
    pub fn populate(&self) -> Result<()> {
        // SAFETY: the handle is open.
        check(unsafe { ffi::dc_cache_populate(self.as_raw()) }).map(drop)
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // SAFETY: open, and ours alone: fills and views borrow the cache. Where one was leaked the
        // library says so and leaves the handle open, or keeps the memory mapped.
        unsafe { ffi::dc_cache_close(self.as_raw()) };
    }
}

/// A negative status as an error that names the sample.
pub(crate) fn of_sample(index: usize, status: i32) -> Result<i32> {
    if status < 0 {
        return Err(Error::new(
            status,
            format!("sample {index}: {}", Error::of(status)),
        ));
    }
    Ok(status)
}

/// A loader on its way through C, and what it leaves for the caller of the load.
struct LoaderCall<F, E> {
    loader: F,
    failure: Option<E>,
    panic: Option<Box<dyn Any + Send>>,
}

/// # Safety
/// `fill` must be open and this thread's until it returns, and `user` the `LoaderCall` of these
/// types, not used by anyone else meanwhile.
unsafe extern "C" fn run_loader<F, E>(
    fill: *mut ffi::dc_fill,
    _index: i64,
    user: *mut c_void,
) -> i32
where
    F: FnMut(&mut Filling<'_>) -> Result<(), E>,
{
    // SAFETY: as the caller promises.
    let call = unsafe { &mut *user.cast::<LoaderCall<F, E>>() };
    let loader = &mut call.loader;
    // What a panic leaves half done is seen only by those who see the panic: it goes on in `load`.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let fill = NonNull::new(fill).expect("the library gives a loader its fill");
        // SAFETY: open until this function returns, by when `Filling` is gone.
        loader(&mut unsafe { Filling::new(fill) })
    }));
    match outcome {
        Ok(Ok(())) => return ffi::DC_LOADED,
        Ok(Err(failure)) => call.failure = Some(failure),
        Err(panic) => call.panic = Some(panic),
    }
    0
}
