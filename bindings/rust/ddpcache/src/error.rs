//! What can go wrong: a status of the library and a sentence.

use std::ffi::{c_char, CStr, CString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use ddpcache_sys as ffi;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the library: which kind, and a sentence with the actual values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: i32,
    message: String,
}

macro_rules! error_kinds {
    ($($(#[$doc:meta])* $kind:ident = $status:ident,)*) => {
        /// What kind an [`Error`] is of. Later versions may know more.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $($(#[$doc])* $kind,)*
            /// A status that this version of the crate does not know; see [`Error::status`].
            Unknown,
        }

        impl ErrorKind {
            fn of(status: i32) -> ErrorKind {
                match status {
                    $(ffi::$status => ErrorKind::$kind,)*
                    _ => ErrorKind::Unknown,
                }
            }
        }
    };
}

error_kinds! {
    /// The sample is not in the cache, and was required.
    Miss = DC_MISS,
    /// Another client was filling the sample at the deadline, and it was required.
    Busy = DC_BUSY,
    /// The cache has no room for the sample, and it was required.
    Full = DC_FULL,
    /// A signal arrived while waiting, and the sample was required.
    Interrupted = DC_INTERRUPTED,
    /// A value that contradicts another, or text with a NUL in it.
    Argument = DC_ERROR_ARGUMENT,
    /// An index, position or size outside its range.
    Range = DC_ERROR_RANGE,
    /// The process is out of memory.
    NoMemory = DC_ERROR_NO_MEMORY,
    /// A system call failed; the message names it and its reason.
    System = DC_ERROR_SYSTEM,
    /// A defect of ddpcache itself: please report it.
    Internal = DC_ERROR_INTERNAL,
    /// This platform, file system, option, or kind of cache cannot do it; or the loaded library
    /// has another ABI version than this crate.
    Unsupported = DC_ERROR_UNSUPPORTED,
    /// The object is not in a state that allows the call.
    State = DC_ERROR_STATE,
    /// The name is not of the allowed form.
    Name = DC_ERROR_NAME,
    /// No cache, or file, has this name.
    NotFound = DC_ERROR_NOT_FOUND,
    /// The cache in use has other options.
    Mismatch = DC_ERROR_MISMATCH,
    /// The cache in use, or its data, belongs to another data set, version or transform.
    Fingerprint = DC_ERROR_FINGERPRINT,
    /// The file has another format version or layout.
    Format = DC_ERROR_FORMAT,
    /// The file is not a sound cache, or a check found a broken invariant.
    Damaged = DC_ERROR_DAMAGED,
    /// The file is not the user's own, or is no regular file.
    Permission = DC_ERROR_PERMISSION,
    /// Too little memory or file-system space; the message says what is there and needed.
    NoSpace = DC_ERROR_NO_SPACE,
    /// The cache's client table is full.
    Clients = DC_ERROR_CLIENTS,
    /// The user's lock file was held until the deadline; the message says by whom.
    Locked = DC_ERROR_LOCKED,
    /// A sample larger than the cache's largest.
    TooLarge = DC_ERROR_TOO_LARGE,
    /// The loader returned without having allocated its sample.
    Loader = DC_ERROR_LOADER,
    /// The calling thread is already filling this index.
    Recursion = DC_ERROR_RECURSION,
    /// The fill's entry was taken over: what was written is discarded.
    Lost = DC_ERROR_LOST,
    /// The process has as many open fills as it may have.
    Fills = DC_ERROR_FILLS,
    /// The sample's arrays are not what the call needs.
    Record = DC_ERROR_RECORD,
    /// The buffer is too small.
    Buffer = DC_ERROR_BUFFER,
    /// A fill was used on another thread than the one that began it.
    Thread = DC_ERROR_THREAD,
    /// This process lost its lock (it closed every descriptor): it can read, not fill.
    Unregistered = DC_ERROR_UNREGISTERED,
    /// The launcher's variables contradict each other or leave the layout unknown.
    Topology = DC_ERROR_TOPOLOGY,
    /// The tail `Drop` leaves no sample for any rank.
    Empty = DC_ERROR_EMPTY,
    /// A saved sampler state that is damaged, or of another version or sampler.
    SamplerState = DC_ERROR_SAMPLER_STATE,
}

impl Error {
    pub(crate) fn new(status: i32, message: impl Into<String>) -> Error {
        Error {
            status,
            message: message.into(),
        }
    }

    /// A status with its fixed sentence.
    pub(crate) fn of(status: i32) -> Error {
        // SAFETY: never NULL, and static text that ends in NUL, for any number.
        let text = unsafe { CStr::from_ptr(ffi::dc_strerror(status)) };
        Error::new(status, text.to_string_lossy())
    }

    /// What kind it is of.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::of(self.status)
    }

    /// The number in C: one of `dc_status`, see [`ddpcache_sys`](ffi).
    pub fn status(&self) -> i32 {
        self.status
    }
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// A negative status as an error with its fixed sentence.
pub(crate) fn check(status: i32) -> Result<i32> {
    if status < 0 {
        return Err(Error::of(status));
    }
    Ok(status)
}

/// Makes a call that explains its errors.
pub(crate) fn explained(call: impl FnOnce(*mut ffi::dc_error) -> i32) -> Result<i32> {
    let mut error = ffi::dc_error {
        status: 0,
        reserved: 0,
        message: [0; 1016],
    };
    let status = call(&mut error);
    if status >= 0 {
        return Ok(status);
    }
    let message = text(&error.message);
    Err(if message.is_empty() {
        Error::of(status)
    } else {
        Error::new(status, message)
    })
}

/// Compares the loaded library's ABI version with the one that this crate was written for. Called
/// before any other function of the library is.
pub(crate) fn library_fits() -> Result<()> {
    static FOUND: OnceLock<i32> = OnceLock::new();
    // SAFETY: takes nothing, and may be called at any time.
    let found = *FOUND.get_or_init(|| unsafe { ffi::dc_abi_version() });
    if found == ffi::DC_ABI_VERSION {
        return Ok(());
    }
    Err(Error::new(
        ffi::DC_ERROR_UNSUPPORTED,
        format!(
            "the loaded libddpcache has ABI version {found}, and this program was built for {}: \
             install the one that it was built with, or build it anew",
            ffi::DC_ABI_VERSION
        ),
    ))
}

/// Text of the library's that ends in NUL or fills its array.
pub(crate) fn text(characters: &[c_char]) -> String {
    let bytes: Vec<u8> = characters
        .iter()
        .map(|&c| c as u8)
        .take_while(|&c| c != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Text for the library, which ends it at the first NUL.
pub(crate) fn c_text(what: &str, bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|_| {
        let shown = String::from_utf8_lossy(bytes).into_owned();
        Error::new(
            ffi::DC_ERROR_ARGUMENT,
            format!("the {what} has a NUL in it: {shown:?}"),
        )
    })
}

pub(crate) fn c_path(what: &str, path: &Path) -> Result<CString> {
    c_text(what, path.as_os_str().as_bytes())
}

/// A NULL where there is no text.
pub(crate) fn pointer(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr())
}
