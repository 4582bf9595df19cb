//! A signal ends a wait where that was asked for, and only there.

mod common;

use std::sync::mpsc;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use common::{decode, open, WAIT};
use ddpcache::{Load, Wait};

const SIGUSR1: i32 = 10;

// Of libc, which every Rust program is linked with.
extern "C" {
    fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
    fn pthread_self() -> usize;
    fn pthread_kill(thread: usize, number: i32) -> i32;
}

extern "C" fn nothing(_: i32) {}

/// Has a thread wait for a sample that another fills, sends it signals until it has ended, but this
/// many at most, and lets the filler go on. What the waiter got.
fn interrupted(wait: Wait, signals: u32) -> String {
    // SAFETY: the handler does nothing.
    unsafe { signal(SIGUSR1, nothing) };
    let cache = open("signals");
    let (claimed, go_on) = (Barrier::new(2), Barrier::new(2));
    let (to, from) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let load = cache.load(3, WAIT, |filling| {
                claimed.wait();
                go_on.wait();
                decode(filling)
            });
            assert!(load.unwrap().view().is_some());
        });
        claimed.wait();
        let waiter = scope.spawn(|| {
            // SAFETY: takes nothing.
            to.send(unsafe { pthread_self() }).unwrap();
            match cache.load(3, wait, decode).unwrap() {
                Load::Ready(view) => format!("ready {:?}", view.bytes()[0]),
                other => format!("{other:?}"),
            }
        });
        let thread = from.recv().unwrap();
        while cache.stats().unwrap().waits == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        for _ in 0..signals {
            thread::sleep(Duration::from_millis(10));
            if waiter.is_finished() {
                break;
            }
            // SAFETY: the thread is not joined before its handle is, below.
            unsafe { pthread_kill(thread, SIGUSR1) };
        }
        let ended = waiter.is_finished();
        go_on.wait();
        format!("{} while it waited: {ended}", waiter.join().unwrap())
    })
}

#[test]
fn a_signal_ends_a_wait_that_may_be_interrupted() {
    assert_eq!(
        interrupted(Wait::interruptible(WAIT), 6000),
        "Interrupted while it waited: true"
    );
}

#[test]
fn other_waits_go_on_through_signals() {
    assert_eq!(
        interrupted(WAIT.into(), 20),
        "ready 3 while it waited: false"
    );
}
