//! Writing samples into a cache.

use std::ffi::CString;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::{fmt, slice};

use ddpcache_sys as ffi;

use crate::error::{c_text, check, explained, Error, Result};
use crate::view::{elements, empty_array, Description};
use crate::{Cache, DType, Element};

/// What one array of a new sample shall be: type, shape and, if wanted, a name.
///
/// ```
/// use ddpcache::{ArraySpec, DType};
/// let image = ArraySpec::new::<f32>(&[3, 32, 32]).named("image");
/// let mask = ArraySpec::of(DType::BOOL, &[32, 32]).named("mask");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArraySpec {
    dtype: DType,
    shape: Vec<usize>,
    name: String,
}

impl ArraySpec {
    /// An array of T; `shape` has the outermost dimension first, at most 8, and none for a scalar.
    pub fn new<T: Element>(shape: &[usize]) -> ArraySpec {
        ArraySpec::of(T::DTYPE, shape)
    }

    /// An array of any type, also of one that Rust has no name for.
    pub fn of(dtype: DType, shape: &[usize]) -> ArraySpec {
        ArraySpec {
            dtype,
            shape: shape.to_vec(),
            name: String::new(),
        }
    }

    /// Gives it a name of at most 55 bytes.
    pub fn named(mut self, name: impl Into<String>) -> ArraySpec {
        self.name = name.into();
        self
    }

    fn raw(&self) -> Result<ffi::dc_array> {
        let mut raw = empty_array();
        let fits = self.shape.len() <= raw.shape.len() && self.name.len() < raw.name.len();
        if !fits || self.name.contains('\0') {
            return Err(Error::new(
                ffi::DC_ERROR_RANGE,
                format!(
                    "an array has at most 8 dimensions and a name of at most 55 bytes without NUL, \
                     not {} dimensions and the name {:?}",
                    self.shape.len(),
                    self.name
                ),
            ));
        }
        for (to, &from) in raw.shape.iter_mut().zip(&self.shape) {
            *to = i64::try_from(from).unwrap_or(i64::MAX);
        }
        for (to, from) in raw.name.iter_mut().zip(self.name.bytes()) {
            *to = from as _;
        }
        raw.dimensions = self.shape.len() as u32;
        raw.dtype_code = self.dtype.code;
        raw.dtype_bits = self.dtype.bits;
        raw.dtype_lanes = self.dtype.lanes;
        Ok(raw)
    }
}

/// One array of a sample that is being filled: memory to decode into, and what it is. Its bytes are
/// whatever was there before: write all of them.
#[derive(Debug)]
pub struct ArrayMut<'fill> {
    data: &'fill mut [u8],
    description: Description,
}

impl<'fill> ArrayMut<'fill> {
    /// What it is.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Its bytes, to be written; aligned to 64.
    pub fn into_data(self) -> &'fill mut [u8] {
        self.data
    }

    /// Its elements, to be written, in C order. [`Record`](crate::ErrorKind::Record), with both
    /// types, where it is of another type; see [`Element::reads`].
    pub fn into_values<T: Element>(self) -> Result<&'fill mut [T]> {
        let dtype = self.description.dtype();
        let length = elements::<T>(self.data.as_ptr(), self.data.len(), dtype)?;
        // SAFETY: `elements` found that the bytes are this many aligned T, of which any bytes are
        // values, and whose values are any bytes; the borrow stays unique, and its lifetime.
        Ok(unsafe { slice::from_raw_parts_mut(self.data.as_mut_ptr().cast(), length) })
    }
}

/// What a loader is given: the right to fill one sample, and memory once it knows the shape.
///
/// It belongs to the thread that it was given to; the memory may be written by any, as long as the
/// loader waits for them.
pub struct Filling<'fill> {
    raw: NonNull<ffi::dc_fill>,
    arrays: Vec<ffi::dc_array>,
    // A pointer, so that neither Send nor Sync: the library lets only the thread that began a fill
    // use it.
    fill: PhantomData<&'fill mut ffi::dc_fill>,
}

impl<'fill> Filling<'fill> {
    /// # Safety
    /// The fill must be open, and this thread's, for all of `'fill`.
    pub(crate) unsafe fn new(raw: NonNull<ffi::dc_fill>) -> Filling<'fill> {
        Filling {
            raw,
            arrays: Vec::new(),
            fill: PhantomData,
        }
    }

    /// The index that is filled.
    pub fn index(&self) -> usize {
        // SAFETY: the fill is open.
        unsafe { ffi::dc_cache_fill_index(self.raw.as_ptr()) as usize }
    }

    /// Obtains memory for a sample of one array of T; `None` where the cache has no room for it.
    /// See [`Self::allocate_arrays`].
    pub fn allocate<T: Element>(&mut self, shape: &[usize]) -> Result<Option<&mut [T]>> {
        match self.allocate_arrays(&[ArraySpec::new::<T>(shape)], None)? {
            Some(mut arrays) => arrays.remove(0).into_values().map(Some),
            None => Ok(None),
        }
    }

    /// Obtains memory for all arrays of a sample, 1 to 64 of them; `None` where the cache has no
    /// room for it: then the decoded sample is the caller's own.
    ///
    /// Once per fill. `structure` is JSON of at most 4,096 bytes that says how a language nests the
    /// arrays. Blocks for as long as the kernel takes to reserve memory.
    ///
    /// Errors: [`TooLarge`](crate::ErrorKind::TooLarge) with both sizes;
    /// [`Argument`](crate::ErrorKind::Argument) and [`Range`](crate::ErrorKind::Range) where a
    /// count, dimension, type or length is impossible; [`State`](crate::ErrorKind::State) at a
    /// second call; [`Lost`](crate::ErrorKind::Lost) where another client has taken the entry over;
    /// [`Unregistered`](crate::ErrorKind::Unregistered) and [`System`](crate::ErrorKind::System)
    /// where no memory can be reserved.
    pub fn allocate_arrays(
        &mut self,
        specs: &[ArraySpec],
        structure: Option<&str>,
    ) -> Result<Option<Vec<ArrayMut<'_>>>> {
        let structure: Option<CString> = structure
            .map(|text| c_text("structure string", text.as_bytes()))
            .transpose()?;
        let mut arrays = specs
            .iter()
            .map(ArraySpec::raw)
            .collect::<Result<Vec<_>>>()?;
        let count = u32::try_from(arrays.len()).unwrap_or(u32::MAX);
        let text = crate::error::pointer(&structure);
        // SAFETY: the fill is open and this thread's; there are `count` arrays; the text ends in
        // NUL or is NULL.
        let status = explained(|error| unsafe {
            ffi::dc_cache_fill_allocate(self.raw.as_ptr(), arrays.as_mut_ptr(), count, text, error)
        })?;
        if status == ffi::DC_FULL {
            return Ok(None);
        }
        self.arrays = arrays;
        Ok(Some(self.arrays_mut()))
    }

    /// The arrays again, once they are allocated; none before.
    pub fn arrays_mut(&mut self) -> Vec<ArrayMut<'_>> {
        let array = |raw: &ffi::dc_array| ArrayMut {
            // SAFETY: never NULL; writable, this fill's alone and apart from the other arrays until
            // the fill ends, before which the borrow of `self` does. It is mapped memory, so each
            // byte has a value, though not one that means anything.
            data: unsafe { slice::from_raw_parts_mut(raw.data, raw.bytes as usize) },
            description: Description::of(raw),
        };
        self.arrays.iter().map(array).collect()
    }
}

impl fmt::Debug for Filling<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Filling")
            .field("index", &self.index())
            .finish_non_exhaustive()
    }
}

/// A claimed entry: nobody else fills it until this is committed, or dropped, which gives it back
/// empty. Never blocks.
///
/// It belongs to the thread that began it:
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<ddpcache::Fill<'static>>();
/// ```
#[derive(Debug)]
pub struct Fill<'cache> {
    filling: Filling<'cache>,
    open: bool,
    cache: PhantomData<&'cache Cache>,
}

impl<'cache> Fill<'cache> {
    /// # Safety
    /// The fill must be one that `dc_cache_fill_begin` gave this thread, and nobody else's.
    pub(crate) unsafe fn new(raw: NonNull<ffi::dc_fill>) -> Fill<'cache> {
        // SAFETY: it stays open until commit, which consumes `self`, or drop.
        let filling = unsafe { Filling::new(raw) };
        Fill {
            filling,
            open: true,
            cache: PhantomData,
        }
    }

    /// The index that is filled.
    pub fn index(&self) -> usize {
        self.filling.index()
    }

    /// As [`Filling::allocate`].
    pub fn allocate<T: Element>(&mut self, shape: &[usize]) -> Result<Option<&mut [T]>> {
        self.filling.allocate(shape)
    }

    /// As [`Filling::allocate_arrays`].
    pub fn allocate_arrays(
        &mut self,
        specs: &[ArraySpec],
        structure: Option<&str>,
    ) -> Result<Option<Vec<ArrayMut<'_>>>> {
        self.filling.allocate_arrays(specs, structure)
    }

    /// As [`Filling::arrays_mut`].
    pub fn arrays_mut(&mut self) -> Vec<ArrayMut<'_>> {
        self.filling.arrays_mut()
    }

    /// Publishes the sample to every process. Never blocks.
    ///
    /// After an error nothing is stored: [`Lost`](crate::ErrorKind::Lost) where another client has
    /// taken the entry over (as it may where this process closed all its descriptors);
    /// [`State`](crate::ErrorKind::State) where nothing was allocated.
    pub fn commit(mut self) -> Result<()> {
        // SAFETY: the fill is open and this thread's.
        let status = unsafe { ffi::dc_cache_fill_commit(self.filling.raw.as_ptr()) };
        // After any other status it is still open, and drop aborts it.
        self.open = !matches!(status, ffi::DC_OK | ffi::DC_ERROR_LOST);
        check(status).map(drop)
    }

    /// Gives the entry back, empty, as drop does.
    pub fn abort(self) {}
}

impl Drop for Fill<'_> {
    fn drop(&mut self) {
        if self.open {
            // SAFETY: the fill is open and this thread's, since neither it nor a reference to it
            // can be sent. The status says what is left alone: a forked child's copy.
            unsafe { ffi::dc_cache_fill_abort(self.filling.raw.as_ptr()) };
        }
    }
}
