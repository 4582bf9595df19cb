//! Which samples a training process reads in an epoch, and in which order.

use std::iter::FusedIterator;
use std::mem::{size_of, MaybeUninit};
use std::ptr::{self, NonNull};

use ddpcache_sys as ffi;

use crate::error::{check, explained, library_fits, Error, Result};
use crate::Topology;

/// How the indices are ordered and dealt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Windows that stay on their node, each shuffled anew every epoch, so that what a node has
    /// cached stays useful.
    #[default]
    Node,
    /// torch's DistributedSampler, to the bit.
    Torch,
    /// VisCy's ShardedDistributedSampler, to the bit.
    Viscy,
}

/// What happens where the samples do not divide evenly among the ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tail {
    /// Every rank gets as many, some samples being repeated: see [`Sampler::real_size`].
    #[default]
    Pad,
    /// Every rank gets as many, some samples being left out of the epoch.
    Drop,
    /// Every sample once; ranks differ by at most one, and a collective operation that one rank
    /// does not reach hangs. Of [`Order::Node`] only.
    Exact,
}

/// What a sampler shall be: made by [`Sampler::builder`]. All ranks must be given the same, but for
/// their place in the topology.
#[derive(Clone, Debug)]
#[must_use]
pub struct SamplerBuilder {
    length: usize,
    order: Order,
    tail: Tail,
    shuffle: bool,
    topology: Topology,
    seed: u64,
    ring_seed: u64,
    ring_identity: bool,
    exchange_ppm: u32,
    canonical_nodes: u32,
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

impl SamplerBuilder {
    setters! {
        /// How indices are ordered and dealt; by default [`Order::Node`].
        order: Order,
        /// What happens to a remainder; by default [`Tail::Pad`].
        tail: Tail,
        /// Whether each epoch has a new order, as by default, or all have the same, unshuffled one.
        shuffle: bool,
        /// Where this rank is. By default the only one: see [`Topology::detect`].
        topology: Topology,
        /// Of the epochs' orders; by default 0.
        seed: u64,
        /// Of [`Order::Node`]'s ring: another one moves samples between nodes; by default 0.
        ring_seed: u64,
        /// Whether the ring is the data set's own order, so that windows are contiguous.
        ring_identity: bool,
        /// How far the windows move along the ring each epoch, in millionths of a window, up to
        /// 1,000,000: the fraction of a node's samples that are new to it. By default 0.
        exchange_ppm: u32,
        /// Deal as for this many nodes, a multiple of their number: global batches are then the
        /// same for every layout that divides them. 0, the default: the number of nodes.
        canonical_nodes: u32,
    }

    /// Opens the sampler, at position 0 of epoch 0. Never blocks.
    ///
    /// [`Argument`](crate::ErrorKind::Argument) for options that do not go together;
    /// [`Range`](crate::ErrorKind::Range); [`Empty`](crate::ErrorKind::Empty) where
    /// [`Tail::Drop`] leaves no rank a sample; [`NoMemory`](crate::ErrorKind::NoMemory).
    pub fn open(&self) -> Result<Sampler> {
        let options = self.options()?;
        let mut raw = ptr::null_mut();
        // SAFETY: all pointers are to values of ours.
        explained(|error| unsafe { ffi::dc_sampler_open(&options, &mut raw, error) })?;
        match NonNull::new(raw) {
            Some(raw) => Ok(Sampler { raw }),
            None => Err(Error::of(ffi::DC_ERROR_INTERNAL)),
        }
    }

    fn options(&self) -> Result<ffi::dc_sampler_options> {
        library_fits()?;
        let mut options = MaybeUninit::<ffi::dc_sampler_options>::zeroed();
        let size = size_of::<ffi::dc_sampler_options>() as u32;
        // SAFETY: memory of ours, of this size.
        check(unsafe { ffi::dc_sampler_options_init(options.as_mut_ptr(), size) })?;
        // SAFETY: all numbers, for which zeros are values, and what the call has set.
        let defaults = unsafe { options.assume_init() };
        Ok(ffi::dc_sampler_options {
            order: match self.order {
                Order::Node => ffi::DC_ORDER_NODE,
                Order::Torch => ffi::DC_ORDER_TORCH,
                Order::Viscy => ffi::DC_ORDER_VISCY,
            },
            tail: match self.tail {
                Tail::Pad => ffi::DC_TAIL_PAD,
                Tail::Drop => ffi::DC_TAIL_DROP,
                Tail::Exact => ffi::DC_TAIL_EXACT,
            },
            shuffle: self.shuffle.into(),
            node: self.topology.node,
            nodes: self.topology.nodes,
            local_rank: self.topology.local_rank,
            local_size: self.topology.local_size,
            length: i64::try_from(self.length).unwrap_or(i64::MAX),
            seed: self.seed,
            ring_seed: self.ring_seed,
            ring_identity: self.ring_identity.into(),
            exchange_ppm: self.exchange_ppm,
            canonical_nodes: self.canonical_nodes,
            ..defaults
        })
    }
}

/// The sampler of one rank: deals the indices 0..length to all ranks, and yields this one's.
///
/// ```
/// use ddpcache::{Sampler, Topology};
/// # fn main() -> ddpcache::Result<()> {
/// let mut sampler =
///     Sampler::builder(60_000).seed(7).topology(Topology::detect()?).open()?;
/// for epoch in 0..3 {
///     sampler.set_epoch(epoch)?;
///     for index in &mut sampler {
///         assert!(index < 60_000); // train on it
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// A handle is ordinary memory: no files, no locks, no network. Nothing here blocks; shuffled
/// [`Order::Torch`] and [`Order::Viscy`] take time in proportion to the data set at their first use
/// of an epoch.
#[derive(Debug)]
pub struct Sampler {
    raw: NonNull<ffi::dc_sampler>,
}

// SAFETY: ordinary memory, tied to no thread.
unsafe impl Send for Sampler {}
// SAFETY: the calls that C gives a const handle, which the library allows in any number of threads,
// take `&self` here, and all others `&mut self`.
unsafe impl Sync for Sampler {}

/// Where an index is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which rank reads it: node * local_size + local_rank.
    pub rank: u32,
    /// When, counted in that rank's samples from 0.
    pub position: usize,
}

impl Sampler {
    /// What a sampler of a data set of `length` samples, up to 2^62, shall be.
    pub fn builder(length: usize) -> SamplerBuilder {
        SamplerBuilder {
            length,
            order: Order::Node,
            tail: Tail::Pad,
            shuffle: true,
            topology: Topology::new(0, 1, 0, 1),
            seed: 0,
            ring_seed: 0,
            ring_identity: false,
            exchange_ppm: 0,
            canonical_nodes: 0,
        }
    }

    /// Goes to position 0 of an epoch, up to 2^40 - 1. In the epoch of a state that was just
    /// loaded, the same epoch again changes nothing: trainers set the epoch after loading.
    pub fn set_epoch(&mut self, epoch: u64) -> Result<()> {
        let epoch = i64::try_from(epoch).unwrap_or(i64::MAX);
        // SAFETY: the handle is open, and ours alone.
        explained(|error| unsafe { ffi::dc_sampler_set_epoch(self.raw.as_ptr(), epoch, error) })
            .map(drop)
    }

    /// The index at the current position, which then advances; `None` at the epoch's end.
    /// [`NoMemory`](crate::ErrorKind::NoMemory) where an order cannot be drawn.
    pub fn try_next(&mut self) -> Result<Option<usize>> {
        let mut index = 0;
        // SAFETY: the handle is open, and ours alone.
        let status = check(unsafe { ffi::dc_sampler_next(self.raw.as_ptr(), &mut index) })?;
        Ok((status == ffi::DC_OK).then_some(index as usize))
    }

    /// Yields the indices from the current position to the epoch's end, and moves it.
    pub fn iter(&mut self) -> Iter<'_> {
        Iter { sampler: self }
    }

    /// The epoch that is read.
    pub fn epoch(&self) -> u64 {
        self.tell().0 as u64
    }

    /// The position that is read next: 0 to [`size`](Self::size).
    pub fn position(&self) -> usize {
        self.tell().1 as usize
    }

    fn tell(&self) -> (i64, i64) {
        let (mut epoch, mut position) = (0, 0);
        // SAFETY: the handle is open. It fails for NULL only.
        unsafe { ffi::dc_sampler_tell(self.raw.as_ptr(), &mut epoch, &mut position) };
        (epoch, position)
    }

    /// Sets the position that is read next, up to [`size`](Self::size).
    pub fn seek(&mut self, position: usize) -> Result<()> {
        let position = i64::try_from(position).unwrap_or(i64::MAX);
        // SAFETY: the handle is open, and ours alone.
        explained(|error| unsafe { ffi::dc_sampler_seek(self.raw.as_ptr(), position, error) })
            .map(drop)
    }

    /// How many samples this rank is dealt in an epoch, or in what is left of a resumed one.
    pub fn size(&self) -> usize {
        let mut size = 0;
        // SAFETY: the handle is open. It fails for NULL only.
        unsafe { ffi::dc_sampler_size(self.raw.as_ptr(), &mut size) };
        size as usize
    }

    /// How many of this rank's samples are no repeats: they come first, and a metric should count
    /// only these. [`Unsupported`](crate::ErrorKind::Unsupported) where shuffled
    /// [`Order::Viscy`] scatters its repeats.
    pub fn real_size(&self) -> Result<usize> {
        let mut size = 0;
        // SAFETY: the handle is open.
        explained(|error| unsafe {
            ffi::dc_sampler_real_size(self.raw.as_ptr(), &mut size, error)
        })?;
        Ok(size as usize)
    }

    /// Copies the indices from `position` on, without moving the current position.
    /// [`Range`](crate::ErrorKind::Range) where there are fewer.
    pub fn read(&self, position: usize, indices: &mut [usize]) -> Result<()> {
        let position = i64::try_from(position).unwrap_or(i64::MAX);
        // SAFETY: the handle is open; an index is as wide as C's, never negative, and there is room
        // for this many.
        explained(|error| unsafe {
            ffi::dc_sampler_read(
                self.raw.as_ptr(),
                position,
                indices.as_mut_ptr().cast(),
                indices.len() as i64,
                error,
            )
        })
        .map(drop)
    }

    /// The first place of an index in this epoch, of all ranks; `None` where it is left out, or was
    /// consumed before the epoch was resumed. [`Range`](crate::ErrorKind::Range).
    pub fn find(&self, index: usize) -> Result<Option<Place>> {
        let index = i64::try_from(index).unwrap_or(i64::MAX);
        let (mut rank, mut position) = (0, 0);
        // SAFETY: the handle is open.
        let status = explained(|error| unsafe {
            ffi::dc_sampler_find(self.raw.as_ptr(), index, &mut rank, &mut position, error)
        })?;
        Ok((status == ffi::DC_OK).then_some(Place {
            rank,
            position: position as usize,
        }))
    }

    /// How many samples this node holds: what its cache needs room for.
    pub fn shard_size(&self) -> usize {
        let mut size = 0;
        // SAFETY: the handle is open. It fails for NULL only.
        unsafe { ffi::dc_sampler_shard_size(self.raw.as_ptr(), &mut size) };
        size as usize
    }

    /// Copies the indices that this node holds from `position` on, each of which occurs once: for
    /// filling a cache ahead of time. [`Range`](crate::ErrorKind::Range) where there are fewer.
    pub fn read_shard(&self, position: usize, indices: &mut [usize]) -> Result<()> {
        let position = i64::try_from(position).unwrap_or(i64::MAX);
        // SAFETY: as for `read`.
        explained(|error| unsafe {
            ffi::dc_sampler_shard_read(
                self.raw.as_ptr(),
                position,
                indices.as_mut_ptr().cast(),
                indices.len() as i64,
                error,
            )
        })
        .map(drop)
    }

    /// Whether this node holds a sample in this epoch or held it in the last: what it does not keep
    /// may be dropped from its cache. [`Range`](crate::ErrorKind::Range).
    pub fn keeps(&self, index: usize) -> Result<bool> {
        let index = i64::try_from(index).unwrap_or(i64::MAX);
        // SAFETY: the handle is open.
        let status = check(unsafe { ffi::dc_sampler_keeps(self.raw.as_ptr(), index) })?;
        Ok(status == ffi::DC_OK)
    }

    /// Where the epoch stands, as bytes that any rank, language and layout can go on from.
    ///
    /// `consumed`: samples that each rank has been *trained* on since the epoch began or was last
    /// resumed, up to its size: loaders read ahead, so it is not the position.
    /// [`Range`](crate::ErrorKind::Range).
    pub fn save_state(&self, consumed: usize) -> Result<Vec<u8>> {
        let consumed = i64::try_from(consumed).unwrap_or(i64::MAX);
        let mut state = vec![0; ffi::DC_SAMPLER_STATE_BYTES_MAX as usize];
        let (to, room, mut needed) = (state.as_mut_ptr(), state.len() as u64, 0);
        // SAFETY: the handle is open; the buffer has this room.
        explained(|error| unsafe {
            ffi::dc_sampler_state_save(self.raw.as_ptr(), consumed, to, room, &mut needed, error)
        })?;
        state.truncate(needed as usize);
        Ok(state)
    }

    /// Goes on where a saved epoch was stopped, at position 0 of what is left of it.
    ///
    /// The sampler must be as the saved one but for the layout and the exchange.
    /// [`SamplerState`](crate::ErrorKind::SamplerState) where it is not, with both values, or where
    /// the bytes are no sound state; the sampler is then as it was.
    pub fn load_state(&mut self, state: &[u8]) -> Result<()> {
        // SAFETY: the handle is open, and ours alone; the state has this many bytes.
        explained(|error| unsafe {
            ffi::dc_sampler_state_load(self.raw.as_ptr(), state.as_ptr(), state.len() as u64, error)
        })
        .map(drop)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // SAFETY: open, and ours alone.
        unsafe { ffi::dc_sampler_close(self.raw.as_ptr()) };
    }
}

impl<'a> IntoIterator for &'a mut Sampler {
    type Item = usize;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// The indices from a sampler's position to the epoch's end.
///
/// # Panics
/// `next` panics where the process has no memory to draw an order, as other allocations abort;
/// [`Sampler::try_next`] does not.
#[derive(Debug)]
pub struct Iter<'a> {
    sampler: &'a mut Sampler,
}

impl Iterator for Iter<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        match self.sampler.try_next() {
            Ok(index) => index,
            Err(error) => panic!("the epoch's order cannot be drawn: {error}"),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.sampler.size() - self.sampler.position();
        (left, Some(left))
    }
}

impl ExactSizeIterator for Iter<'_> {}
impl FusedIterator for Iter<'_> {}
