// The raw Rust layer at work: the cache named by the first argument, and the sampler. See test_raw.py.

#[allow(dead_code, non_camel_case_types)]
#[path = "../../bindings/rust/ddpcache-sys/src/raw.rs"]
mod raw;

use raw::*;
use std::ffi::{c_char, c_void, CStr, CString};
use std::mem::{size_of, zeroed};
use std::ptr::{null, null_mut};
use std::slice;

fn text(pointer: *const c_char) -> String {
    unsafe { CStr::from_ptr(pointer) }
        .to_str()
        .unwrap()
        .to_owned()
}

fn succeed(status: i32, error: &dc_error) {
    let meaning = text(unsafe { dc_strerror(status) });
    assert_eq!(status, DC_OK, "{meaning}: {}", text(error.message.as_ptr()));
}

unsafe fn write_sample(fill: *mut dc_fill, first: i32) {
    let (mut array, mut error): (dc_array, dc_error) = (zeroed(), zeroed());
    array.dimensions = 2;
    array.shape[..2].copy_from_slice(&[2, 3]);
    array.dtype_bits = 32;
    array.dtype_lanes = 1;
    array.name[0] = b'x' as c_char;
    let structure = CString::new("{\"v\": 1}").unwrap();
    let status = dc_cache_fill_allocate(fill, &mut array, 1, structure.as_ptr(), &mut error);
    succeed(status, &error);
    assert_eq!(array.bytes, 24);
    for (place, value) in slice::from_raw_parts_mut(array.data.cast::<i32>(), 6)
        .iter_mut()
        .zip(first..)
    {
        *place = value;
    }
}

unsafe fn check(view: &mut dc_view, index: i64, first: i32) {
    let (mut array, mut bytes): (dc_array, u64) = (zeroed(), 0);
    assert_eq!(dc_view_array(view, 0, &mut array), DC_OK);
    assert_eq!(
        (text(array.name.as_ptr()).as_str(), array.dimensions),
        ("x", 2)
    );
    assert_eq!(
        (&array.shape[..2], array.dtype_bits, view.index),
        (&[2, 3][..], 32, index)
    );
    let values = slice::from_raw_parts(view.data.cast::<i32>(), 6);
    assert!(values.iter().copied().eq(first..first + 6));
    assert_eq!(
        (text(dc_view_structure(view, &mut bytes)).as_str(), bytes),
        ("{\"v\": 1}", 8)
    );
    dc_cache_view_release(view);
    assert!(view.owner.is_null());
}

unsafe extern "C" fn loader(fill: *mut dc_fill, _index: i64, user: *mut c_void) -> i32 {
    write_sample(fill, *user.cast::<i32>());
    DC_LOADED
}

unsafe extern "C" fn failing(_fill: *mut dc_fill, _index: i64, _user: *mut c_void) -> i32 {
    0
}

unsafe fn cache(name: &str) {
    let (c_name, fingerprint) = (CString::new(name).unwrap(), CString::new("raw").unwrap());
    let (mut options, mut error): (dc_cache_options, dc_error) = (zeroed(), zeroed());
    assert_eq!(
        dc_cache_options_init(&mut options, size_of::<dc_cache_options>() as u32),
        DC_OK
    );
    options.length = 10;
    options.capacity_bytes = 1 << 20;
    let mut handle = null_mut();
    let status = dc_cache_open(
        c_name.as_ptr(),
        null(),
        fingerprint.as_ptr(),
        &options,
        &mut handle,
        &mut error,
    );
    succeed(status, &error);
    let mut fill = null_mut();
    succeed(dc_cache_fill_begin(handle, 3, 0, &mut fill), &error);
    write_sample(fill, 100);
    succeed(dc_cache_fill_commit(fill), &error);
    let (mut view, mut user): (dc_view, i32) = (zeroed(), 200);
    assert_eq!(dc_cache_view(handle, 4, &mut view), DC_MISS);
    succeed(dc_cache_view(handle, 3, &mut view), &error);
    check(&mut view, 3, 100);
    let user_pointer = (&mut user as *mut i32).cast();
    succeed(
        dc_cache_load(
            handle,
            4,
            Some(loader),
            user_pointer,
            1_000_000_000,
            &mut view,
        ),
        &error,
    );
    check(&mut view, 4, 200);
    assert_eq!(
        dc_cache_load(handle, 5, Some(failing), null_mut(), 0, &mut view),
        DC_ERROR_LOADER
    );
    assert_eq!(
        dc_cache_load(handle, 5, None, null_mut(), 0, &mut view),
        DC_ERROR_ARGUMENT
    );
    succeed(dc_cache_close(handle), &error);
    let status = dc_cache_attach(c_name.as_ptr(), null(), 0, &mut handle, &mut error);
    assert_eq!(
        (status, error.status),
        (DC_ERROR_NOT_FOUND, DC_ERROR_NOT_FOUND)
    );
    assert!(text(error.message.as_ptr()).contains(name));
}

unsafe fn sampler() {
    let (mut options, mut error): (dc_sampler_options, dc_error) = (zeroed(), zeroed());
    assert_eq!(
        dc_sampler_options_init(&mut options, size_of::<dc_sampler_options>() as u32),
        DC_OK
    );
    options.length = 20;
    options.seed = 7;
    let mut handle = null_mut();
    succeed(dc_sampler_open(&options, &mut handle, &mut error), &error);
    succeed(dc_sampler_set_epoch(handle, 2, null_mut()), &error);
    let (mut indices, mut index) = ([0i64; 20], 0);
    succeed(
        dc_sampler_read(handle, 0, indices.as_mut_ptr(), 20, &mut error),
        &error,
    );
    for expected in indices {
        succeed(dc_sampler_next(handle, &mut index), &error);
        assert_eq!(index, expected);
    }
    assert_eq!(dc_sampler_next(handle, &mut index), DC_END);
    dc_sampler_close(handle);
    println!("{}", indices.map(|each| each.to_string()).join(" "));
}

fn main() {
    let name = std::env::args().nth(1).unwrap();
    unsafe {
        cache(&name);
        sampler();
    }
}
