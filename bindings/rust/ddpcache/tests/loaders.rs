//! Loaders that fail, panic or do what they should not, and threads that want one sample.

mod common;

use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Barrier;
use std::time::Duration;

use common::{builder, decode, open, unique, WAIT};
use ddpcache::{Cache, Error, ErrorKind, Fill, Filling, Load, Sampler, View};

#[derive(Debug, PartialEq)]
enum MyError {
    Corrupt(usize),
    Cache(Error),
}

impl From<Error> for MyError {
    fn from(error: Error) -> MyError {
        MyError::Cache(error)
    }
}

impl fmt::Display for MyError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{self:?}")
    }
}

fn usable_after(cache: &Cache, index: usize) {
    assert_eq!(cache.stats().unwrap().open_fills, 0);
    let view = cache.load(index, WAIT, decode).unwrap().required().unwrap();
    assert_eq!(view.bytes(), [index as u8; 16]);
    cache.check().unwrap();
}

#[test]
fn a_loader_s_own_error_comes_back_as_it_was() {
    let cache = open("error");
    for allocate_first in [false, true] {
        let load = cache.load(7, WAIT, |filling| {
            if allocate_first {
                filling.allocate::<u8>(&[16])?;
            }
            Err(MyError::Corrupt(filling.index()))
        });
        assert_eq!(load.unwrap_err(), MyError::Corrupt(7));
        assert!(cache.view(7).unwrap().is_none());
    }
    usable_after(&cache, 7);
}

#[test]
fn a_loader_s_panic_goes_on_in_its_caller_and_the_sample_can_be_loaded_again() {
    let cache = open("panic");
    for allocate_first in [false, true] {
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let _ = cache.load(7, WAIT, |filling| -> Result<(), Error> {
                if allocate_first {
                    filling.allocate::<u8>(&[16])?.unwrap().fill(1);
                }
                std::panic::panic_any(MyError::Corrupt(7));
            });
        }))
        .unwrap_err();
        assert_eq!(panic.downcast_ref::<MyError>(), Some(&MyError::Corrupt(7)));
        assert!(cache.view(7).unwrap().is_none());
    }
    assert_eq!(cache.stats().unwrap().aborts, 2);
    usable_after(&cache, 7);
}

#[test]
fn a_panic_hands_the_sample_to_another_thread_that_waits() {
    let cache = open("handed");
    let claimed = Barrier::new(2);
    std::thread::scope(|scope| {
        let panicking = scope.spawn(|| {
            let _ = cache.load(3, WAIT, |_| -> Result<(), Error> {
                claimed.wait();
                while cache.stats().unwrap().waits == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                panic!("on purpose");
            });
        });
        claimed.wait();
        let view = cache.load(3, WAIT, decode).unwrap().required().unwrap();
        assert_eq!(view.bytes(), [3; 16]);
        assert!(panicking.join().is_err());
    });
}

#[test]
fn what_a_loader_must_not_do_is_an_error() {
    let cache = open("wrong");
    let nothing = cache.load(1, WAIT, |_| Ok::<_, Error>(()));
    assert_eq!(nothing.unwrap_err().kind(), ErrorKind::Loader);
    let twice = cache.load(1, WAIT, |filling| {
        filling.allocate::<u8>(&[1])?;
        filling.allocate::<u8>(&[1]).map(drop)
    });
    assert_eq!(twice.unwrap_err().kind(), ErrorKind::State);
    let itself = cache.load(1, WAIT, |_| cache.load(1, WAIT, decode).map(drop));
    assert_eq!(itself.unwrap_err().kind(), ErrorKind::Recursion);
    usable_after(&cache, 1);
}

#[test]
fn a_loader_may_use_the_cache() {
    let cache = open("nested");
    let load = cache.load(1, WAIT, |filling| {
        let other = cache.load(2, WAIT, decode)?.required()?;
        filling
            .allocate::<u8>(&[16])?
            .unwrap()
            .copy_from_slice(other.bytes());
        Ok::<_, Error>(())
    });
    assert_eq!(load.unwrap().required().unwrap().bytes(), [2; 16]);
}

#[test]
fn many_threads_that_want_one_sample_decode_it_once() {
    const THREADS: usize = 16;
    let cache = builder(&unique("threads")).droppable(true).open().unwrap();
    let start = Barrier::new(THREADS);
    let decodes = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for index in 0..50 {
                    start.wait();
                    let view = cache.load(index, WAIT, |filling| {
                        decodes.fetch_add(1, Ordering::Relaxed);
                        decode(filling)
                    });
                    assert_eq!(view.unwrap().required().unwrap().bytes(), [index as u8; 16]);
                }
            });
        }
    });
    assert_eq!(decodes.into_inner(), 50);
    assert_eq!(cache.check().unwrap().entries_ready, 50);
}

#[test]
fn a_view_is_read_and_given_back_by_another_thread() {
    let cache = builder(&unique("moved")).droppable(true).open().unwrap();
    let view = cache.load(9, WAIT, decode).unwrap().required().unwrap();
    std::thread::scope(|scope| {
        let shared = &view;
        scope.spawn(move || assert_eq!(shared.bytes(), [9; 16]));
    });
    std::thread::scope(|scope| {
        scope.spawn(move || assert_eq!(view.values::<u8>().unwrap()[15], 9));
    });
    assert!(cache.remove(9).unwrap());
    assert_eq!(cache.check().unwrap().extents_named, 0);
}

#[test]
fn a_busy_sample_is_told_at_the_deadline() {
    let cache = open("busy");
    let (claimed, done) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let load = cache.load(3, WAIT, |filling| {
                claimed.wait();
                done.wait();
                decode(filling)
            });
            assert!(load.unwrap().view().is_some());
        });
        claimed.wait();
        let load = cache.load(3, Duration::from_millis(20), decode).unwrap();
        assert!(matches!(load, Load::Busy), "{load:?}");
        assert_eq!(load.required().unwrap_err().kind(), ErrorKind::Busy);
        done.wait();
    });
}

#[test]
fn handles_and_views_go_between_threads() {
    fn goes_between_threads<T: Send + Sync>() {}
    goes_between_threads::<Cache>();
    goes_between_threads::<View<'static>>();
    goes_between_threads::<Sampler>();
    goes_between_threads::<Error>();
    goes_between_threads::<ddpcache::Array<'static>>();
    // What does not is in the documentation of Fill, as an example that must not compile.
    fn any<T>() {}
    any::<(Fill<'static>, Filling<'static>)>();
}
