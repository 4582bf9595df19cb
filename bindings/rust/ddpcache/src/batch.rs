//! Many samples at once: copied out, or described.

use std::marker::PhantomData;
use std::{mem, ptr};

use ddpcache_sys as ffi;

use crate::cache::of_sample;
use crate::error::{check, Error, Result};
use crate::view::{empty_array, Description};
use crate::{Cache, Element, ErrorKind};

/// What became of one sample of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct SampleStatus(i32);

impl SampleStatus {
    /// Whether it was there, and as asked for.
    pub fn is_ok(self) -> bool {
        self.0 == ffi::DC_OK
    }

    /// Whether it is not in the cache.
    pub fn is_miss(self) -> bool {
        self.0 == ffi::DC_MISS
    }

    /// What is wrong with it: [`Range`](ErrorKind::Range) for its index;
    /// [`Record`](ErrorKind::Record) where it has no such array, or of another length;
    /// [`NoMemory`](ErrorKind::NoMemory).
    pub fn error(self) -> Option<ErrorKind> {
        (self.0 < 0).then(|| Error::of(self.0).kind())
    }
}

/// Where one array of every sample of a batch goes.
///
/// Bytes are copied as they were stored: their type is not compared with T.
#[derive(Debug)]
pub struct Part<'a> {
    raw: ffi::dc_gather,
    /// Bytes that there is room for.
    room: usize,
    /// Where samples are of different size.
    offsets: Option<&'a [i64]>,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> Part<'a> {
    /// Array `number` of every sample, all of the same size: each gets an equal share of `values`.
    pub fn new<T: Element>(number: usize, values: &'a mut [T]) -> Part<'a> {
        let raw = ffi::dc_gather {
            buffer: values.as_mut_ptr().cast(),
            offsets: ptr::null(),
            sample_bytes: 0,
            number: u32::try_from(number).unwrap_or(u32::MAX),
            reserved: 0,
        };
        Part {
            raw,
            room: mem::size_of_val(values),
            offsets: None,
            memory: PhantomData,
        }
    }

    /// Array `number` of samples of different size: sample i of the batch goes to, and must fill,
    /// bytes `offsets[i]..offsets[i + 1]` of `values`. One offset more than samples; from 0 on and
    /// never falling.
    pub fn ragged<T: Element>(number: usize, values: &'a mut [T], offsets: &'a [i64]) -> Part<'a> {
        let mut part = Part::new(number, values);
        part.raw.offsets = offsets.as_ptr();
        part.offsets = Some(offsets);
        part
    }

    /// What C is given, once it is certain that C stays inside the memory.
    fn raw_for(&self, samples: usize) -> Result<ffi::dc_gather> {
        let mut raw = self.raw;
        let wrong = |reason: String| Err(Error::new(ffi::DC_ERROR_RANGE, reason));
        match self.offsets {
            None if samples == 0 && self.room == 0 => {}
            None if samples != 0 && self.room % samples == 0 => {
                raw.sample_bytes = (self.room / samples) as u64;
            }
            None => {
                return wrong(format!(
                    "{} bytes cannot be shared out evenly among {samples} samples",
                    self.room
                ));
            }
            Some(offsets) => {
                let count = offsets.len();
                let end = offsets.last().copied().unwrap_or(-1);
                let inside = usize::try_from(end).is_ok_and(|end| end <= self.room);
                if count != samples + 1 || !inside || offsets.windows(2).any(|two| two[0] > two[1])
                {
                    return wrong(format!(
                        "{samples} samples need {} offsets that never fall, up to the {} bytes \
                         that there are, and have {count} up to {end}",
                        samples + 1,
                        self.room
                    ));
                }
            }
        }
        Ok(raw)
    }
}

/// What one array of one sample of a batch is.
#[derive(Clone, Debug)]
pub struct BatchDescription {
    /// Whether there is such an array.
    pub status: SampleStatus,
    /// How many arrays the sample has; 0 for one that is not in the cache.
    pub array_count: usize,
    /// A hash of its structure string, by which samples can be compared; 0 where it has none.
    pub structure_hash: u64,
    /// The array, where there is one.
    pub array: Option<Description>,
}

impl Cache {
    /// Copies one array of a sample into `values`; how many elements it has, or `None` for a miss.
    /// Never blocks.
    ///
    /// [`Buffer`](ErrorKind::Buffer) where it is longer than `values`;
    /// [`Record`](ErrorKind::Record) where the sample has no such array, or it is of another type.
    pub fn read<T: Element>(
        &self,
        index: usize,
        number: usize,
        values: &mut [T],
    ) -> Result<Option<usize>> {
        let Some(view) = self.view(index)? else {
            return Ok(None);
        };
        if number >= view.array_count() {
            return Err(Error::new(
                ffi::DC_ERROR_RECORD,
                format!(
                    "sample {index} has {} arrays, and no {number}",
                    view.array_count()
                ),
            ));
        }
        let found = view.values_of::<T>(number)?;
        let room = values.len();
        let Some(to) = values.get_mut(..found.len()) else {
            return Err(Error::new(
                ffi::DC_ERROR_BUFFER,
                format!(
                    "sample {index} has {} elements, and there is room for {room}",
                    found.len()
                ),
            ));
        };
        to.copy_from_slice(found);
        Ok(Some(found.len()))
    }

    /// Copies array `number` of many samples of equal size into one buffer, one after the other:
    /// [`gather`](Self::gather) of one part.
    pub fn read_batch<T: Element>(
        &self,
        indices: &[usize],
        number: usize,
        values: &mut [T],
        threads: usize,
    ) -> Result<Vec<SampleStatus>> {
        self.gather(indices, &mut [Part::new(number, values)], threads)
    }

    /// Copies several arrays of many samples in one pass; what became of each sample.
    ///
    /// A sample whose status is not ok leaves all of its places as they were; the others are copied
    /// nevertheless. `indices` in any order, repeats allowed; `parts` 1 to 64; `threads` native
    /// threads to copy with, this one among them, 1 to 64. Never blocks.
    ///
    /// ```
    /// # use ddpcache::{ArraySpec, Cache, Error, Part};
    /// # fn main() -> ddpcache::Result<()> {
    /// # let name = format!("doc-gather-{}", std::process::id());
    /// # let cache = Cache::builder(name).length(10).capacity_bytes(1 << 20).open()?;
    /// # let specs = [ArraySpec::new::<f32>(&[4]), ArraySpec::new::<i64>(&[])];
    /// # for index in [7, 9] {
    /// #     cache.load(index, std::time::Duration::ZERO, |filling| {
    /// #         let mut arrays = filling.allocate_arrays(&specs, None)?.unwrap();
    /// #         arrays.pop().unwrap().into_values::<i64>()?[0] = index as i64;
    /// #         arrays.pop().unwrap().into_values::<f32>()?.fill(0.5);
    /// #         Ok::<_, Error>(())
    /// #     })?.required()?;
    /// # }
    /// let mut images = vec![0f32; 3 * 4];
    /// let mut labels = vec![0i64; 3];
    /// let parts = &mut [Part::new(0, &mut images), Part::new(1, &mut labels)];
    /// let statuses = cache.gather(&[7, 9, 8], parts, 1)?;
    /// assert!(statuses[0].is_ok() && statuses[1].is_ok() && statuses[2].is_miss());
    /// assert_eq!(labels, [7, 9, 0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`Range`](ErrorKind::Range), with nothing copied, where a part's memory does not fit the
    /// number of samples, or a count is out of range.
    pub fn gather(
        &self,
        indices: &[usize],
        parts: &mut [Part<'_>],
        threads: usize,
    ) -> Result<Vec<SampleStatus>> {
        let raw = parts
            .iter()
            .map(|part| part.raw_for(indices.len()))
            .collect::<Result<Vec<ffi::dc_gather>>>()?;
        let count = u32::try_from(raw.len()).unwrap_or(u32::MAX);
        let threads = u32::try_from(threads).unwrap_or(u32::MAX);
        of_batch(indices, |indices, statuses| {
            // SAFETY: the handle is open; there are as many indices and statuses as they say;
            // `raw_for` has found that each part's samples lie in its own, borrowed, memory.
            unsafe {
                ffi::dc_cache_gather(
                    self.as_raw(),
                    indices.as_ptr().cast(),
                    indices.len() as i64,
                    raw.as_ptr(),
                    count,
                    statuses.as_mut_ptr().cast(),
                    threads,
                )
            }
        })
    }

    /// What array `number` of each of many samples is: what a caller needs to make room for a
    /// batch. Counts as neither hit nor miss. Never blocks.
    pub fn describe(&self, indices: &[usize], number: usize) -> Result<Vec<BatchDescription>> {
        let length = indices.len();
        let mut arrays = vec![empty_array(); length];
        let (mut counts, mut structures) = (vec![0; length], vec![0; length]);
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let statuses = of_batch(indices, |indices, statuses| {
            // SAFETY: the handle is open; all arrays have as many elements as there are indices.
            unsafe {
                ffi::dc_cache_describe_batch(
                    self.as_raw(),
                    indices.as_ptr().cast(),
                    length as i64,
                    number,
                    arrays.as_mut_ptr(),
                    counts.as_mut_ptr(),
                    structures.as_mut_ptr(),
                    statuses.as_mut_ptr().cast(),
                )
            }
        })?;
        let described = |i: usize| BatchDescription {
            status: statuses[i],
            array_count: counts[i] as usize,
            structure_hash: structures[i],
            array: statuses[i].is_ok().then(|| Description::of(&arrays[i])),
        };
        Ok((0..length).map(described).collect())
    }

    /// Which of `count` samples from `first` on are in the cache. Never blocks; each answer is true
    /// at some moment of the call.
    pub fn residency(&self, first: usize, count: usize) -> Result<Vec<bool>> {
        if count as u64 > ffi::DC_LENGTH_MAX as u64 {
            return Err(Error::new(
                ffi::DC_ERROR_RANGE,
                format!(
                    "no cache has {count} entries, but {} at most",
                    ffi::DC_LENGTH_MAX
                ),
            ));
        }
        let mut bits = vec![0u8; count.div_ceil(8)];
        // SAFETY: the handle is open; there is a bit for each of `count`.
        let status = unsafe {
            ffi::dc_cache_residency(self.as_raw(), first as i64, count as i64, bits.as_mut_ptr())
        };
        of_sample(first, status)?;
        Ok((0..count)
            .map(|i| bits[i / 8] >> (i % 8) & 1 == 1)
            .collect())
    }
}

/// Makes a call that has a status for each sample. An error that no sample has is the whole call's.
fn of_batch(
    indices: &[usize],
    call: impl FnOnce(&[usize], &mut [SampleStatus]) -> i32,
) -> Result<Vec<SampleStatus>> {
    let mut statuses = vec![SampleStatus(ffi::DC_OK); indices.len()];
    let status = call(indices, &mut statuses);
    if status < 0 && !statuses.contains(&SampleStatus(status)) {
        check(status)?;
    }
    Ok(statuses)
}
