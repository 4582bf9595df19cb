//! Every error of the library has a kind here.

use ddpcache::ffi;
use std::collections::BTreeMap;

/// The statuses as the generated file declares them.
fn statuses() -> BTreeMap<String, i32> {
    let raw = include_str!("../../ddpcache-sys/src/raw.rs");
    raw.lines()
        .filter_map(|line| {
            line.strip_prefix("pub const DC_ERROR_")?
                .split_once(": i32 = ")
        })
        .map(|(name, value)| {
            (
                name.to_owned(),
                value.trim_end_matches(';').parse().unwrap(),
            )
        })
        .collect()
}

#[test]
fn every_status_of_the_library_has_a_kind_of_its_name() {
    let source = include_str!("../src/error.rs");
    let statuses = statuses();
    assert!(statuses.len() > 25);
    for name in statuses.keys() {
        let kind: String = name
            .split('_')
            .map(|word| word[..1].to_owned() + &word[1..].to_lowercase())
            .collect();
        let line = format!("    {kind} = DC_ERROR_{name},");
        assert!(
            source.lines().any(|each| each == line),
            "src/error.rs has no `{line}`"
        );
    }
}

#[test]
fn a_status_has_a_number_and_a_sentence() {
    let error = ddpcache::Cache::builder("no-such-cache-at-all")
        .attach()
        .unwrap_err();
    assert_eq!(error.kind(), ddpcache::ErrorKind::NotFound);
    assert_eq!(error.status(), ffi::DC_ERROR_NOT_FOUND);
    assert!(
        error.to_string().contains("no-such-cache-at-all"),
        "{error}"
    );
    assert_eq!(statuses()["NOT_FOUND"], error.status());
}
