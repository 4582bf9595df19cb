#![doc = include_str!("../README.md")]
//!
//! # How C becomes Rust
//!
//! Sizes and times: bytes, and [`Duration`](std::time::Duration). Indices and positions are `usize`
//! and start at 0. What is expected to happen is a value: `None`, `false`, or a variant of [`Load`],
//! [`Claim`] or [`SampleStatus`]; an [`Error`] is what should not. Everything that the library owns
//! is given back by `Drop`, and borrows keep the right order of that.
//!
//! A fork needs `unsafe` in Rust, and whoever calls it sees to this: a child may use the parent's
//! caches and samplers; the parent's open fills and views stay the parent's, and are left alone
//! where the child drops them.
//!
//! What Rust promises of shared memory is what the library promises: nobody writes to a sample that
//! can be viewed. A hostile process of the same user could, as it could to any file that a program
//! maps.

mod batch;
mod builder;
mod cache;
mod dtype;
mod error;
mod files;
mod fill;
mod keys;
mod output;
mod permutation;
mod report;
mod sampler;
mod saving;
mod topology;
mod view;

pub use batch::{BatchDescription, Part, SampleStatus};
pub use builder::{CacheBuilder, Checksums};
pub use cache::{Cache, Claim, Load, Wait};
pub use dtype::{DType, Element};
pub use error::{Error, ErrorKind, Result};
pub use files::{collect_garbage, list, saved_info, unlink, version, SavedInfo};
pub use fill::{ArrayMut, ArraySpec, Fill, Filling};
pub use permutation::{Permutation, Purpose};
pub use report::{Info, Report, Stats};
pub use sampler::{Iter, Order, Place, Sampler, SamplerBuilder, Tail};
pub use topology::{Launcher, Topology};
pub use view::{Array, Description, View};

pub use ddpcache_sys as ffi;
