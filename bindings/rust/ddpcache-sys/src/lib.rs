#![doc = include_str!("../README.md")]
#![no_std]
#![allow(non_camel_case_types)]

#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    target_endian = "little"
)))]
compile_error!("ddpcache is for 64-bit little-endian Linux");

mod raw;

pub use raw::*;
