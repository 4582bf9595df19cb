//! Looks at stored samples.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::{fmt, mem, slice, str};

use ddpcache_sys as ffi;

use crate::error::{check, Error, Result};
use crate::{Cache, DType, Element};

/// A look at one sample, without a copy.
///
/// The sample stays as it is while the view exists, also where another process removes it. A view
/// may be sent to and shared with other threads, and is given back when it is dropped, which never
/// blocks. It cannot outlive its cache:
///
/// ```compile_fail,E0597
/// # fn main() -> ddpcache::Result<()> {
/// let view = {
///     let cache = ddpcache::Cache::builder("digits").length(10).open()?;
///     cache.view(0)?
/// }; // error: `cache` does not live long enough
/// drop(view);
/// # Ok(())
/// # }
/// ```
///
/// nor can what it shows outlive the view:
///
/// ```compile_fail,E0505
/// # fn first(cache: &ddpcache::Cache) -> ddpcache::Result<u8> {
/// let view = cache.view(0)?.expect("cached");
/// let pixels = view.values::<u8>()?;
/// drop(view); // error: cannot move out of `view` because it is borrowed
/// Ok(pixels[0])
/// # }
/// ```
pub struct View<'cache> {
    raw: ffi::dc_view,
    cache: PhantomData<&'cache Cache>,
}

// SAFETY: the library lets any thread release a view, and look at it.
unsafe impl Send for View<'_> {}
// SAFETY: the sample's bytes do not change while a view of it exists, and the calls that take a
// shared view only read.
unsafe impl Sync for View<'_> {}

impl View<'_> {
    /// A view that the library has filled and that nobody else releases.
    pub(crate) fn new(raw: ffi::dc_view) -> Self {
        View {
            raw,
            cache: PhantomData,
        }
    }

    /// The sample's index.
    pub fn index(&self) -> usize {
        self.raw.index as usize
    }

    /// How many arrays the sample has: 1 to 64.
    pub fn array_count(&self) -> usize {
        self.raw.array_count as usize
    }

    /// The bytes of the first array, whatever its type.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the library's view is readable, and does not change, until it is released, which
        // only drop does; the result borrows `self`.
        unsafe { bytes_at(self.raw.data, self.raw.bytes) }
    }

    /// The elements of the first array; see [`Array::values`].
    pub fn values<T: Element>(&self) -> Result<&[T]> {
        self.values_of(0)
    }

    /// The elements of one of its arrays: as [`Self::array`] and [`Array::values`], in one step.
    pub fn values_of<T: Element>(&self, number: usize) -> Result<&[T]> {
        let raw = self.raw_array(number)?;
        // SAFETY: as for `bytes`.
        let data = unsafe { bytes_at(raw.data, raw.bytes) };
        values(data, DType::of(&raw))
    }

    /// One of its arrays. [`Range`](crate::ErrorKind::Range) where it has none of this number;
    /// [`Record`](crate::ErrorKind::Record) where the stored record is not sound.
    pub fn array(&self, number: usize) -> Result<Array<'_>> {
        let raw = self.raw_array(number)?;
        // SAFETY: as for `bytes`.
        let data = unsafe { bytes_at(raw.data, raw.bytes) };
        Ok(Array {
            data,
            description: Description::of(&raw),
        })
    }

    fn raw_array(&self, number: usize) -> Result<ffi::dc_array> {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let mut raw = MaybeUninit::uninit();
        // SAFETY: the view is not released before drop; `raw` is ours.
        check(unsafe { ffi::dc_view_array(&self.raw, number, raw.as_mut_ptr()) })?;
        // SAFETY: the call has filled it, since it has not failed.
        Ok(unsafe { raw.assume_init() })
    }

    /// All of its arrays.
    pub fn arrays(&self) -> Result<Vec<Array<'_>>> {
        (0..self.array_count())
            .map(|number| self.array(number))
            .collect()
    }

    /// The array of this name, if it has one.
    pub fn named(&self, name: &str) -> Result<Option<Array<'_>>> {
        for number in 0..self.array_count() {
            let array = self.array(number)?;
            if array.name() == name {
                return Ok(Some(array));
            }
        }
        Ok(None)
    }

    /// The structure string: JSON by which the language that stored the sample nests its arrays.
    /// [`Record`](crate::ErrorKind::Record) where it is not UTF-8.
    pub fn structure(&self) -> Result<Option<&str>> {
        // SAFETY: the view is not released before drop; the length may be left out.
        let text = unsafe { ffi::dc_view_structure(&self.raw, std::ptr::null_mut()) };
        if text.is_null() {
            return Ok(None);
        }
        // SAFETY: it ends in NUL and is valid until release; the result borrows `self`.
        let text = unsafe { CStr::from_ptr(text) };
        match text.to_str() {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(Error::new(
                ffi::DC_ERROR_RECORD,
                format!(
                    "the structure string of sample {} is not UTF-8",
                    self.index()
                ),
            )),
        }
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        // SAFETY: a view of the library's that nobody else releases.
        unsafe { ffi::dc_cache_view_release(&mut self.raw) };
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("View")
            .field("index", &self.index())
            .field("array_count", &self.array_count())
            .finish_non_exhaustive()
    }
}

/// What an array is: type, shape and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    dtype: DType,
    shape: [usize; ffi::DC_DIMENSIONS_MAX as usize],
    dimensions: usize,
    name: [u8; 56],
    bytes: usize,
}

impl Description {
    pub(crate) fn of(raw: &ffi::dc_array) -> Description {
        Description {
            dtype: DType::of(raw),
            shape: raw.shape.map(|extent| extent as usize),
            dimensions: (raw.dimensions as usize).min(raw.shape.len()),
            name: raw.name.map(|character| character as u8),
            bytes: raw.bytes as usize,
        }
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its dimensions, outermost first; none for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape[..self.dimensions]
    }

    /// Its name; empty where it has none.
    pub fn name(&self) -> &str {
        let length = self
            .name
            .iter()
            .position(|&c| c == 0)
            .unwrap_or(self.name.len());
        // A name that is cut inside a character ends before it.
        match str::from_utf8(&self.name[..length]) {
            Ok(name) => name,
            Err(reason) => str::from_utf8(&self.name[..reason.valid_up_to()]).unwrap_or(""),
        }
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// One array of a viewed sample: elements in C order, and what they are. Derefs to its
/// [`Description`].
#[derive(Clone, Debug)]
pub struct Array<'view> {
    data: &'view [u8],
    description: Description,
}

impl<'view> Array<'view> {
    /// Its bytes, whatever its type; aligned to 64.
    pub fn data(&self) -> &'view [u8] {
        self.data
    }

    /// Its elements, in C order. [`Record`](crate::ErrorKind::Record), with both types, where they
    /// are of another type; see [`Element::reads`].
    pub fn values<T: Element>(&self) -> Result<&'view [T]> {
        values(self.data, self.dtype)
    }
}

impl std::ops::Deref for Array<'_> {
    type Target = Description;

    fn deref(&self) -> &Description {
        &self.description
    }
}

fn values<T: Element>(data: &[u8], dtype: DType) -> Result<&[T]> {
    let length = elements::<T>(data.as_ptr(), data.len(), dtype)?;
    // SAFETY: `elements` found that the bytes are this many aligned T, of which any bytes are
    // values; the lifetime stays.
    Ok(unsafe { slice::from_raw_parts(data.as_ptr().cast(), length) })
}

/// How many T the bytes are, or why they cannot be seen as T.
pub(crate) fn elements<T: Element>(data: *const u8, bytes: usize, dtype: DType) -> Result<usize> {
    let wrong = |reason: String| Err(Error::new(ffi::DC_ERROR_RECORD, reason));
    if !T::reads(dtype) {
        return wrong(format!(
            "the array is of {dtype}, and cannot be seen as {}",
            T::DTYPE
        ));
    }
    if bytes % mem::size_of::<T>() != 0 || data as usize % mem::align_of::<T>() != 0 {
        return wrong(format!(
            "the array's {bytes} bytes at {data:p} are no {}",
            T::DTYPE
        ));
    }
    Ok(bytes / mem::size_of::<T>())
}

pub(crate) fn empty_array() -> ffi::dc_array {
    ffi::dc_array {
        data: std::ptr::null_mut(),
        bytes: 0,
        shape: [0; 8],
        dimensions: 0,
        dtype_code: 0,
        dtype_bits: 0,
        dtype_lanes: 0,
        name: [0; 56],
        reserved: [0; 24],
    }
}

pub(crate) fn empty_view() -> ffi::dc_view {
    ffi::dc_view {
        data: std::ptr::null(),
        bytes: 0,
        index: 0,
        array_count: 0,
        slot: 0,
        record: std::ptr::null(),
        record_bytes: 0,
        owner: std::ptr::null_mut(),
        reserved: 0,
    }
}

/// Bytes of the library's; none where it has no address for them.
///
/// # Safety
/// The bytes must be readable, and must not change, for as long as the result is used.
unsafe fn bytes_at<'a>(data: *const u8, bytes: u64) -> &'a [u8] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: what the caller promises; samples are far smaller than isize::MAX.
    unsafe { slice::from_raw_parts(data, bytes as usize) }
}
