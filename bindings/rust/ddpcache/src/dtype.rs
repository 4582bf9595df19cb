//! Types of elements, as DLPack numbers them.

use std::fmt;

use ddpcache_sys as ffi;

/// The type of an array's elements: DLPack's code, bits and lanes.
///
/// ```
/// use ddpcache::DType;
/// assert_eq!(DType::FLOAT32.to_string(), "float32");
/// assert_eq!(DType::FLOAT32.bytes(), 4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DType {
    /// 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool; 7 and more: kinds of float of 8 bits
    /// and less.
    pub code: u8,
    /// Bits of one lane; bits times lanes is a multiple of 8.
    pub bits: u8,
    /// Usually 1.
    pub lanes: u16,
}

impl DType {
    /// `i8`
    pub const INT8: DType = DType::new(0, 8);
    /// `i16`
    pub const INT16: DType = DType::new(0, 16);
    /// `i32`
    pub const INT32: DType = DType::new(0, 32);
    /// `i64`
    pub const INT64: DType = DType::new(0, 64);
    /// `u8`
    pub const UINT8: DType = DType::new(1, 8);
    /// `u16`
    pub const UINT16: DType = DType::new(1, 16);
    /// `u32`
    pub const UINT32: DType = DType::new(1, 32);
    /// `u64`
    pub const UINT64: DType = DType::new(1, 64);
    /// IEEE half precision, which Rust sees as `u16`.
    pub const FLOAT16: DType = DType::new(2, 16);
    /// `f32`
    pub const FLOAT32: DType = DType::new(2, 32);
    /// `f64`
    pub const FLOAT64: DType = DType::new(2, 64);
    /// The upper half of an `f32`, which Rust sees as `u16`.
    pub const BFLOAT16: DType = DType::new(4, 16);
    /// Two `f32`: real and imaginary part, `[f32; 2]`.
    pub const COMPLEX64: DType = DType::new(5, 64);
    /// Two `f64`: real and imaginary part, `[f64; 2]`.
    pub const COMPLEX128: DType = DType::new(5, 128);
    /// A byte that is 0 or 1, which Rust sees as `u8`: others may have stored any byte, and a
    /// `bool` that is neither is undefined behaviour.
    pub const BOOL: DType = DType::new(6, 8);

    /// A type of one lane.
    pub const fn new(code: u8, bits: u8) -> DType {
        DType {
            code,
            bits,
            lanes: 1,
        }
    }

    /// Bytes of one element, all lanes.
    pub const fn bytes(self) -> usize {
        self.bits as usize * self.lanes as usize / 8
    }

    pub(crate) fn of(array: &ffi::dc_array) -> DType {
        DType {
            code: array.dtype_code,
            bits: array.dtype_bits,
            lanes: array.dtype_lanes,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            0 => write!(to, "int{}", self.bits)?,
            1 => write!(to, "uint{}", self.bits)?,
            2 => write!(to, "float{}", self.bits)?,
            4 => write!(to, "bfloat{}", self.bits)?,
            5 => write!(to, "complex{}", self.bits)?,
            6 if self.bits == 8 => to.write_str("bool")?,
            code => write!(to, "DLPack type {code} of {} bits", self.bits)?,
        }
        match self.lanes {
            1 => Ok(()),
            lanes => write!(to, " x {lanes}"),
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that array elements can be seen as.
///
/// Any bytes are a value of each such type, and that is what this crate's unsafe code relies on:
/// nobody else can implement it, and `bool` does not.
///
/// ```compile_fail,E0277
/// fn values<T: ddpcache::Element>() {}
/// values::<bool>();
/// ```
///
/// ```compile_fail,E0277
/// struct Mine;
/// impl ddpcache::Element for Mine {
///     const DTYPE: ddpcache::DType = ddpcache::DType::UINT8;
///     fn reads(_: ddpcache::DType) -> bool { true }
/// }
/// ```
pub trait Element: sealed::Sealed + Copy + Send + Sync + 'static {
    /// What an array of this Rust type is stored as.
    const DTYPE: DType;

    /// Whether stored elements of a type can be seen as this one: those of [`Self::DTYPE`], and as
    /// `u8` also bool, as `u16` also float16 and bfloat16.
    fn reads(dtype: DType) -> bool {
        dtype == Self::DTYPE
    }
}

macro_rules! elements {
    ($($element:ty = $dtype:ident $(and $($other:ident)+)?,)*) => {$(
        impl sealed::Sealed for $element {}
        impl Element for $element {
            const DTYPE: DType = DType::$dtype;
            $(fn reads(dtype: DType) -> bool {
                [Self::DTYPE, $(DType::$other),+].contains(&dtype)
            })?
        }
    )*};
}

elements! {
    i8 = INT8,
    i16 = INT16,
    i32 = INT32,
    i64 = INT64,
    u8 = UINT8 and BOOL,
    u16 = UINT16 and FLOAT16 BFLOAT16,
    u32 = UINT32,
    u64 = UINT64,
    f32 = FLOAT32,
    f64 = FLOAT64,
    [f32; 2] = COMPLEX64,
    [f64; 2] = COMPLEX128,
}
