//! Caches shared with other processes, some of which are killed: this program plays them too.

mod common;

use std::ops::ControlFlow;
use std::time::Duration;

use common::{builder, decode, listen, open, role_words, say, unique, Role, WAIT};
use ddpcache::{Cache, Claim, Error, ErrorKind, Load};

/// Claims sample 5, goes on to some stage of filling it, and stays so.
#[test]
#[ignore = "a role in other tests"]
fn filler() {
    let Some(words) = role_words() else { return };
    let cache = builder(&words[0]).open().unwrap();
    if words[1] == "loading" {
        let _ = cache.load(5, WAIT, |filling| {
            filling.allocate::<u8>(&[16])?.unwrap()[..8].fill(0xEE);
            say("there");
            listen();
            Ok::<_, Error>(())
        });
        panic!("was to be killed");
    }
    let Claim::Fill(mut fill) = cache.begin_fill(5, WAIT).unwrap() else {
        panic!()
    };
    if words[1] != "claimed" {
        let bytes = fill.allocate::<u8>(&[16]).unwrap().unwrap();
        let written = if words[1] == "half" { 8 } else { 16 };
        bytes[..written].fill(0xEE);
    }
    say("there");
    listen();
}

/// Loads every sample, and keeps the cache open to the end of its input.
#[test]
#[ignore = "a role in other tests"]
fn loader() {
    let Some(words) = role_words() else { return };
    let cache = builder(&words[0]).open().unwrap();
    say("open");
    listen();
    let mut decoded = 0;
    for index in 0..100 {
        let load = cache.load(index, WAIT, |filling| {
            decoded += 1;
            decode(filling)
        });
        assert_eq!(load.unwrap().required().unwrap().bytes(), [index as u8; 16]);
    }
    say(&decoded.to_string());
    listen();
}

#[test]
fn a_filler_that_is_killed_costs_its_decode_only() {
    for stage in ["claimed", "half", "written", "loading"] {
        let name = unique("kill");
        let cache = builder(&name).open().unwrap();
        let mut filler = Role::start("filler", &[&name, stage]);
        assert_eq!(filler.hear(), "there");
        let load = cache.load(5, Duration::from_millis(20), decode).unwrap();
        assert!(matches!(load, Load::Busy), "{stage}: {load:?}");
        assert_eq!(cache.stats().unwrap().open_fills, 1);
        filler.kill();
        let view = cache.load(5, WAIT, decode).unwrap().required().unwrap();
        assert_eq!(view.bytes(), [5; 16], "{stage}");
        assert_eq!(cache.stats().unwrap().takeovers, 1);
        let report = cache.check().unwrap();
        assert_eq!((report.entries_ready, report.entries_writing), (1, 0));
        assert_eq!((report.clients, report.clients_dead), (2, 1));
    }
}

#[test]
fn of_several_processes_one_decodes_each_sample() {
    let name = unique("share");
    let mut loaders: Vec<Role> = (0..3).map(|_| Role::start("loader", &[&name])).collect();
    for loader in &mut loaders {
        assert_eq!(loader.hear(), "open");
    }
    for loader in &mut loaders {
        loader.tell("go");
    }
    let decoded: u32 = loaders
        .iter_mut()
        .map(|l| l.hear().parse::<u32>().unwrap())
        .sum();
    assert_eq!(decoded, 100);
    let judge = Cache::builder(&name).attach_read_only().unwrap();
    assert_eq!(judge.check().unwrap().entries_ready, 100);
    drop(judge);
    for loader in loaders {
        loader.finish();
    }
    assert!(!ddpcache::list(None).unwrap().contains(&name));
}

#[test]
fn identity_is_compared_and_errors_show_both_values() {
    let name = unique("identity");
    let cache = builder(&name).fingerprint("digits v1").open().unwrap();
    let error = builder(&name).fingerprint("digits v2").open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fingerprint);
    assert!(error.to_string().contains("digits v1"), "{error}");
    assert!(error.to_string().contains("digits v2"), "{error}");
    let error = builder(&name)
        .length(7)
        .fingerprint("digits v1")
        .open()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert_eq!(
        Cache::builder("no/name")
            .length(1)
            .open()
            .unwrap_err()
            .kind(),
        ErrorKind::Name
    );
    let error = Cache::builder("a\0b").length(1).open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
    assert_eq!(
        Cache::builder(unique("none")).attach().unwrap_err().kind(),
        ErrorKind::NotFound
    );

    let info = cache.info().unwrap();
    assert_eq!(
        (info.name.as_str(), info.fingerprint.as_str()),
        (name.as_str(), "digits v1")
    );
    assert_eq!(
        (info.length, info.created, info.read_only),
        (100, true, false)
    );
    assert_eq!(info.uuid.len(), 36);
    assert_eq!(
        Cache::builder(&name).attach().unwrap().info().unwrap().uuid,
        info.uuid
    );
}

#[test]
fn who_reads_only_fills_nothing() {
    let name = unique("readonly");
    let cache = builder(&name).open().unwrap();
    assert!(cache.load(1, WAIT, decode).unwrap().view().is_some());
    let reader = Cache::builder(&name).attach_read_only().unwrap();
    assert!(reader.info().unwrap().read_only);
    assert_eq!(reader.view(1).unwrap().unwrap().bytes(), [1; 16]);
    let mut ran = 0;
    let load = reader.load(2, WAIT, |filling| {
        ran += 1;
        assert!(filling.allocate::<u8>(&[16])?.is_none());
        Ok::<_, Error>(())
    });
    assert!(matches!(load.unwrap(), Load::Full));
    assert_eq!(ran, 1);
    assert_eq!(
        reader.begin_fill(2, WAIT).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
}

#[test]
fn kept_caches_stay_until_they_are_unlinked() {
    let name = unique("kept");
    let kept = builder(&name).keep(true).fingerprint("f");
    drop(kept.open().unwrap());
    assert!(ddpcache::list(None).unwrap().contains(&name));
    assert!(kept.open().unwrap().info().unwrap().adopted);
    assert!(ddpcache::unlink(&name, None).unwrap());
    assert!(!ddpcache::unlink(&name, None).unwrap());
    ddpcache::collect_garbage(None).unwrap();

    let (capacity, total) = builder("any").estimate(4096).unwrap();
    assert!(capacity >= 100 * 4096 && total > capacity);
    assert_eq!(ddpcache::version().unwrap(), "0.1.0");
}

struct Folder(std::path::PathBuf);

impl Folder {
    fn new() -> Folder {
        let folder = std::env::temp_dir().join(unique("folder"));
        std::fs::create_dir(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_saved_cache_comes_back_with_its_samples() {
    let folder = Folder::new();
    let file = folder.0.join("cache");
    let cache = builder(&unique("save"))
        .fingerprint("digits v1")
        .open()
        .unwrap();
    for index in 0..10 {
        assert!(cache.load(index, WAIT, decode).unwrap().view().is_some());
    }
    let mut last = (0, 1);
    let saved = cache.save_with(&file, |done, total| {
        last = (done, total);
        ControlFlow::<()>::Continue(())
    });
    assert_eq!(saved.unwrap(), ControlFlow::Continue(10));
    assert_eq!(last.0, last.1);
    let info = ddpcache::saved_info(&file).unwrap();
    assert_eq!(
        (info.samples, info.length, info.fingerprint.as_str()),
        (10, 100, "digits v1")
    );
    assert_eq!(info.uuid, cache.info().unwrap().uuid);

    let restored = Cache::builder(unique("restored")).restore(&file).unwrap();
    assert!(restored.info().unwrap().created);
    assert_eq!(restored.view(9).unwrap().unwrap().bytes(), [9; 16]);
    let other = Cache::builder(unique("restored"))
        .fingerprint("digits v2")
        .restore(&file);
    assert_eq!(other.unwrap_err().kind(), ErrorKind::Fingerprint);
    let none = Cache::builder(unique("restored")).restore(folder.0.join("none"));
    assert_eq!(none.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_progress_stops_a_save_and_a_restore_and_may_panic() {
    let folder = Folder::new();
    let file = folder.0.join("cache");
    let cache = open("stopped");
    assert!(cache.load(1, WAIT, decode).unwrap().view().is_some());
    let saved = cache.save_with(&file, |_, _| ControlFlow::Break("enough"));
    assert_eq!(saved.unwrap(), ControlFlow::Break("enough"));
    assert!(!file.exists());
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        cache.save_with(&file, |_, _| -> ControlFlow<()> { panic!("on purpose") })
    }));
    assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"on purpose"));
    assert!(!file.exists());
    assert_eq!(cache.save(&file).unwrap(), 1);

    let name = unique("stopped");
    let flow = Cache::builder(&name)
        .restore_with(&file, |_, _| ControlFlow::Break(17))
        .unwrap();
    assert!(matches!(flow, ControlFlow::Break(17)));
    assert!(!ddpcache::list(None).unwrap().contains(&name));
}
