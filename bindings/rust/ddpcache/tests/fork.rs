//! A forked child uses its parent's cache and leaves its fills and views alone.

mod common;

use common::{builder, decode, role_words, say, unique, Role, WAIT};
use ddpcache::{Cache, Claim};

// Of libc, which every Rust program is linked with.
extern "C" {
    fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
}

/// Forks with a fill and a view open, and tells what became of both processes.
#[test]
#[ignore = "a role in other tests"]
fn forker() {
    let Some(words) = role_words() else { return };
    let cache = builder(&words[0]).droppable(true).open().unwrap();
    let view = cache.load(1, WAIT, decode).unwrap().required().unwrap();
    let Claim::Fill(mut fill) = cache.begin_fill(5, WAIT).unwrap() else {
        panic!()
    };
    fill.allocate::<u8>(&[16]).unwrap().unwrap().fill(5);
    // SAFETY: the child calls nothing that another thread could have had a lock of at the fork but
    // the allocator, which glibc makes safe, and ends by _exit.
    let child = unsafe { fork() };
    if child == 0 {
        let inherited = view.bytes() == [1; 16];
        drop(fill);
        drop(view);
        let own = cache
            .load(7, WAIT, decode)
            .is_ok_and(|load| load.view().is_some());
        let closed = cache.close().is_ok();
        // SAFETY: takes no memory.
        unsafe { _exit(if inherited && own && closed { 0 } else { 1 }) };
    }
    let mut status = -1;
    // SAFETY: `status` is ours.
    let ended = unsafe { waitpid(child, &mut status, 0) } == child && status == 0;
    let committed = fill.commit();
    say(&format!(
        "child {ended}, commit {committed:?}, view {}",
        view.bytes() == [1; 16]
    ));
    assert!(cache.remove(1).unwrap());
    say(&format!(
        "views that are left: {}",
        cache.check().unwrap().extents_named
    ));
    common::listen();
}

#[test]
fn a_child_leaves_its_parent_s_fill_and_view_alone() {
    let name = unique("fork");
    let mut forker = Role::start("forker", &[&name]);
    assert_eq!(forker.hear(), "child true, commit Ok(()), view true");
    assert_eq!(forker.hear(), "views that are left: 1");
    let judge = Cache::builder(&name).attach_read_only().unwrap();
    assert!(judge.contains(5).unwrap() && judge.contains(7).unwrap());
    forker.finish();
}
