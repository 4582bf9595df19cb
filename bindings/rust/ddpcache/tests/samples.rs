//! Samples of every type and shape, stored and seen again.

mod common;

use common::{builder, decode, open, unique, WAIT};
use ddpcache::{ArraySpec, Cache, Claim, DType, Element, Error, ErrorKind, Load, Part};

/// Stores one array of T, and sees the same again.
fn comes_back<T: Element + PartialEq + std::fmt::Debug>(cache: &Cache, index: usize, values: &[T]) {
    let view = cache
        .load(index, WAIT, |filling| {
            filling
                .allocate::<T>(&[values.len()])?
                .unwrap()
                .copy_from_slice(values);
            Ok::<_, Error>(())
        })
        .unwrap()
        .required()
        .unwrap();
    let array = view.array(0).unwrap();
    assert_eq!(array.dtype(), T::DTYPE);
    assert_eq!(array.shape(), [values.len()]);
    assert_eq!(array.bytes(), std::mem::size_of_val(values));
    assert_eq!(array.values::<T>().unwrap(), values);
    assert_eq!(array.data().as_ptr() as usize % 64, 0);
}

#[test]
fn elements_of_every_type_come_back() {
    let cache = open("types");
    comes_back(&cache, 0, &[i8::MIN, -1, i8::MAX]);
    comes_back(&cache, 1, &[i16::MIN, -1, i16::MAX]);
    comes_back(&cache, 2, &[i32::MIN, -1, i32::MAX]);
    comes_back(&cache, 3, &[i64::MIN, -1, i64::MAX]);
    comes_back(&cache, 4, &[0, 1, u8::MAX]);
    comes_back(&cache, 5, &[0, 1, u16::MAX]);
    comes_back(&cache, 6, &[0, 1, u32::MAX]);
    comes_back(&cache, 7, &[0, 1, u64::MAX]);
    comes_back(&cache, 8, &[f32::MIN, -0.5, f32::INFINITY]);
    comes_back(&cache, 9, &[f64::MIN, -0.5, f64::INFINITY]);
    comes_back(&cache, 10, &[[1f32, -2.0], [3.0, 4.0]]);
    comes_back(&cache, 11, &[[1f64, -2.0], [3.0, 4.0]]);
    comes_back::<f32>(&cache, 12, &[]);
}

#[test]
fn half_floats_are_seen_as_u16_and_booleans_as_u8() {
    let cache = open("views");
    let specs = [
        ArraySpec::of(DType::FLOAT16, &[2]).named("half"),
        ArraySpec::of(DType::BFLOAT16, &[2]).named("brain"),
        ArraySpec::of(DType::BOOL, &[2]).named("mask"),
    ];
    let view = cache
        .load(0, WAIT, |filling| {
            for array in filling.allocate_arrays(&specs, None)?.unwrap() {
                match array.description().name() {
                    "mask" => array.into_values::<u8>()?.copy_from_slice(&[0, 1]),
                    _ => array
                        .into_values::<u16>()?
                        .copy_from_slice(&[0x3C00, 0x3F80]),
                }
            }
            Ok::<_, Error>(())
        })
        .unwrap()
        .required()
        .unwrap();
    let names: Vec<_> = view
        .arrays()
        .unwrap()
        .iter()
        .map(|a| a.name().to_owned())
        .collect();
    assert_eq!(names, ["half", "brain", "mask"]);
    let named = |name| view.named(name).unwrap().unwrap();
    assert_eq!(named("half").values::<u16>().unwrap(), [0x3C00, 0x3F80]);
    assert_eq!(named("brain").values::<u16>().unwrap(), [0x3C00, 0x3F80]);
    assert_eq!(named("mask").values::<u8>().unwrap(), [0, 1]);
    assert!(view.named("label").unwrap().is_none());
    assert_eq!(view.array(3).unwrap_err().kind(), ErrorKind::Range);

    let error = named("half").values::<f32>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Record);
    assert_eq!(
        error.to_string(),
        "the array is of float16, and cannot be seen as float32"
    );
    assert_eq!(
        named("mask").values::<u16>().unwrap_err().kind(),
        ErrorKind::Record
    );
    assert_eq!(
        named("mask").values::<i8>().unwrap_err().kind(),
        ErrorKind::Record
    );
}

#[test]
fn scalars_and_arrays_of_eight_dimensions_have_their_shape_and_structure() {
    let cache = open("shapes");
    let shape = [1, 2, 1, 3, 1, 2, 1, 2];
    let specs = [ArraySpec::new::<i64>(&[]), ArraySpec::new::<u8>(&shape)];
    let view = cache
        .load(5, WAIT, |filling| {
            let mut arrays = filling
                .allocate_arrays(&specs, Some(r#"{"v":1}"#))?
                .unwrap();
            arrays.pop().unwrap().into_data().fill(9);
            arrays.pop().unwrap().into_values::<i64>()?[0] = -1;
            Ok::<_, Error>(())
        })
        .unwrap()
        .required()
        .unwrap();
    assert_eq!(view.index(), 5);
    assert_eq!(view.array_count(), 2);
    assert_eq!(view.array(0).unwrap().shape(), []);
    assert_eq!(view.values::<i64>().unwrap(), [-1]);
    assert_eq!(view.bytes(), (-1i64).to_le_bytes());
    assert_eq!(view.array(1).unwrap().shape(), shape);
    assert_eq!(view.array(1).unwrap().data(), [9; 24]);
    assert_eq!(view.structure().unwrap(), Some(r#"{"v":1}"#));
}

#[test]
fn impossible_arrays_are_errors_that_show_their_values() {
    let cache = open("impossible");
    let refused = |specs: &[ArraySpec], structure: Option<&str>| -> Error {
        let load = cache.load(0, WAIT, |filling| {
            filling.allocate_arrays(specs, structure).map(drop)?;
            panic!("was allowed")
        });
        load.unwrap_err()
    };
    let error = refused(&[ArraySpec::new::<u8>(&[1; 9])], None);
    assert_eq!(error.kind(), ErrorKind::Range);
    assert!(error.to_string().contains("9 dimensions"), "{error}");
    let error = refused(&[ArraySpec::new::<u8>(&[1]).named("n".repeat(56))], None);
    assert_eq!(error.kind(), ErrorKind::Range);
    let error = refused(&[ArraySpec::new::<u8>(&[1])], Some("a\0b"));
    assert_eq!(error.kind(), ErrorKind::Argument);
    let error = refused(&[ArraySpec::new::<u8>(&[usize::MAX])], None);
    assert!(error.status() < 0, "{error}");
    let error = refused(&[ArraySpec::new::<u8>(&[65 << 10])], None);
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("66560"), "{error}");
    assert_eq!(refused(&[], None).kind(), ErrorKind::Range);
    assert_eq!(cache.check().unwrap().entries_writing, 0);
    assert!(cache.load(0, WAIT, decode).unwrap().view().is_some());
}

#[test]
fn misses_hits_and_indices_out_of_range_are_told_apart() {
    let cache = open("misses");
    assert!(cache.view(3).unwrap().is_none());
    assert!(!cache.contains(3).unwrap());
    assert!(matches!(
        cache.load(3, WAIT, decode).unwrap(),
        Load::Ready(_)
    ));
    assert_eq!(cache.view(3).unwrap().unwrap().bytes(), [3; 16]);
    assert!(cache.contains(3).unwrap());
    for index in [100, usize::MAX] {
        let error = cache.view(index).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Range);
        assert!(
            error.to_string().starts_with(&format!("sample {index}: ")),
            "{error}"
        );
        assert_eq!(
            cache.load(index, WAIT, decode).unwrap_err().kind(),
            ErrorKind::Range
        );
        assert!(cache.begin_fill(index, WAIT).is_err());
    }
    let stats = cache.stats().unwrap();
    assert_eq!((stats.fills, stats.resident), (1, 1));
    assert_eq!(cache.client_stats().unwrap().fills, 1);
}

#[test]
fn a_full_cache_says_so_to_the_loader_and_to_its_caller() {
    let full = builder(&unique("full"))
        .capacity_bytes(1 << 20)
        .sample_bytes_max(256 << 10);
    let cache = full.open().unwrap();
    let load = |index: usize, own: &mut Option<Vec<u8>>| {
        let load = cache.load(index, WAIT, |filling| {
            match filling.allocate::<u8>(&[200_000])? {
                Some(bytes) => bytes.fill(index as u8),
                None => *own = Some(vec![index as u8; 200_000]),
            }
            Ok::<_, Error>(())
        });
        load.unwrap()
    };
    let mut own = None;
    let stored = (0..10)
        .take_while(|&index| load(index, &mut own).view().is_some())
        .count();
    assert!(
        (1..=5).contains(&stored),
        "{stored} samples of 200,000 bytes in a MiB"
    );
    assert_eq!(own, Some(vec![stored as u8; 200_000]));
    let result = load(9, &mut own);
    assert!(matches!(result, Load::Full), "{result:?}");
    assert_eq!(result.required().unwrap_err().kind(), ErrorKind::Full);
    assert!(own.is_some_and(|own| own == [9; 200_000]));
    // What is there goes on hitting.
    assert_eq!(
        cache.view(stored - 1).unwrap().unwrap().bytes(),
        [stored as u8 - 1; 200_000]
    );
    assert_eq!(cache.stats().unwrap().bypasses, 2);
}

#[test]
fn a_fill_is_published_by_commit_and_given_back_by_drop() {
    let cache = open("fills");
    let claimed = |index| match cache.begin_fill(index, WAIT).unwrap() {
        Claim::Fill(fill) => fill,
        other => panic!("{other:?}"),
    };
    let mut fill = claimed(1);
    assert_eq!(fill.index(), 1);
    fill.allocate::<u32>(&[2]).unwrap().unwrap()[0] = 10;
    assert_eq!(
        fill.allocate::<u32>(&[2]).unwrap_err().kind(),
        ErrorKind::State
    );
    fill.arrays_mut().remove(0).into_values::<u32>().unwrap()[1] = 11;
    assert!(cache.view(1).unwrap().is_none());
    fill.commit().unwrap();
    assert_eq!(
        cache.view(1).unwrap().unwrap().values::<u32>().unwrap(),
        [10, 11]
    );
    assert!(matches!(cache.begin_fill(1, WAIT).unwrap(), Claim::Present));

    drop(claimed(2));
    claimed(2).abort();
    assert_eq!(claimed(2).commit().unwrap_err().kind(), ErrorKind::State);
    let fill = claimed(2);
    assert_eq!(
        cache.begin_fill(2, WAIT).unwrap_err().kind(),
        ErrorKind::Recursion
    );
    drop(fill);
    assert!(!cache.contains(2).unwrap());
    assert_eq!(cache.stats().unwrap().open_fills, 0);
    cache.close().unwrap();
}

#[test]
fn batches_copy_what_is_there_and_say_what_is_not() {
    let cache = open("batches");
    let specs = [ArraySpec::new::<f32>(&[3]), ArraySpec::new::<i64>(&[])];
    for index in [4, 7] {
        let load = cache.load(index, WAIT, |filling| {
            let mut arrays = filling.allocate_arrays(&specs, None)?.unwrap();
            arrays.pop().unwrap().into_values::<i64>()?[0] = index as i64;
            arrays
                .pop()
                .unwrap()
                .into_values::<f32>()?
                .fill(index as f32);
            Ok::<_, Error>(())
        });
        assert!(load.unwrap().view().is_some());
    }
    let indices = [7, 5, 4, 100];
    let (mut images, mut labels) = ([0f32; 12], [-1i64; 4]);
    let offsets = [0, 8, 16, 24, 32];
    let parts = &mut [
        Part::new(0, &mut images),
        Part::ragged(1, &mut labels, &offsets),
    ];
    let statuses = cache.gather(&indices, parts, 2).unwrap();
    assert_eq!(
        statuses.iter().map(|s| s.is_ok()).collect::<Vec<_>>(),
        [true, false, true, false]
    );
    assert!(statuses[1].is_miss());
    assert_eq!(statuses[3].error(), Some(ErrorKind::Range));
    assert_eq!(labels, [7, -1, 4, -1]);
    assert_eq!(images, [7., 7., 7., 0., 0., 0., 4., 4., 4., 0., 0., 0.]);

    let mut wrong = [0u8; 5];
    let error = cache.read_batch(&[4, 7], 0, &mut wrong, 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "5 bytes cannot be shared out evenly among 2 samples"
    );
    for offsets in [&[0, 8][..], &[0, 8, 40], &[0, 8, 4], &[0, 8, -1], &[]] {
        let parts = &mut [Part::ragged(1, &mut labels, offsets)];
        assert_eq!(
            cache.gather(&[4, 7], parts, 1).unwrap_err().kind(),
            ErrorKind::Range
        );
    }
    let two = cache.read_batch(&[4, 7], 0, &mut images[..2], 1).unwrap();
    assert!(two
        .iter()
        .all(|status| status.error() == Some(ErrorKind::Record)));
    assert_eq!(
        cache
            .read_batch(&[4], 0, &mut images[..3], 65)
            .unwrap_err()
            .kind(),
        ErrorKind::Range
    );

    let found = cache.describe(&indices, 1).unwrap();
    assert_eq!(found[0].array.as_ref().unwrap().dtype(), DType::INT64);
    assert_eq!(found[0].array_count, 2);
    assert!(found[1].status.is_miss() && found[1].array.is_none());

    let mut one = [0f32; 4];
    assert_eq!(cache.read(4, 0, &mut one).unwrap(), Some(3));
    assert_eq!(one, [4., 4., 4., 0.]);
    assert_eq!(cache.read(5, 0, &mut one).unwrap(), None);
    assert_eq!(
        cache.read(4, 0, &mut one[..2]).unwrap_err().kind(),
        ErrorKind::Buffer
    );
    assert_eq!(
        cache.read(4, 2, &mut one).unwrap_err().kind(),
        ErrorKind::Record
    );
    assert_eq!(
        cache.read(4, 1, &mut one).unwrap_err().kind(),
        ErrorKind::Record
    );

    assert_eq!(
        cache.residency(3, 5).unwrap(),
        [false, true, false, false, true]
    );
    assert_eq!(cache.residency(99, 2).unwrap_err().kind(), ErrorKind::Range);
    assert_eq!(
        cache.residency(0, usize::MAX).unwrap_err().kind(),
        ErrorKind::Range
    );
    cache.populate().unwrap();
}

#[test]
fn removed_samples_are_gone_at_once_and_views_of_them_stay() {
    let cache = builder(&unique("remove")).droppable(true).open().unwrap();
    for index in 0..4 {
        assert!(cache.load(index, WAIT, decode).unwrap().view().is_some());
    }
    let view = cache.view(2).unwrap().unwrap();
    assert!(cache.remove(2).unwrap());
    assert!(!cache.remove(2).unwrap());
    assert!(cache.view(2).unwrap().is_none());
    for index in 10..60 {
        assert!(cache.load(index, WAIT, decode).unwrap().view().is_some());
    }
    assert_eq!(view.bytes(), [2; 16]);
    assert_eq!(cache.remove_batch(&[1, 2, 3, 1]).unwrap(), 2);
    assert_eq!(cache.clear().unwrap(), 51);
    assert_eq!(cache.stats().unwrap().resident, 0);
    drop(view);
    cache.check().unwrap();
    assert_eq!(
        open("fixed").remove(1).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
}

#[test]
fn keys_have_an_index_of_their_own() {
    let cache = builder(&unique("keys"))
        .keyed(true)
        .length(2)
        .open()
        .unwrap();
    assert_eq!(cache.lookup("train/1.png").unwrap(), None);
    let index = cache.intern("train/1.png").unwrap().unwrap();
    assert_eq!(cache.intern(b"train/1.png").unwrap(), Some(index));
    assert_eq!(cache.lookup("train/1.png").unwrap(), Some(index));
    assert!(cache.view_key("train/1.png").unwrap().is_none());
    assert!(cache.load(index, WAIT, decode).unwrap().view().is_some());
    assert_eq!(
        cache.view_key("train/1.png").unwrap().unwrap().bytes(),
        [index as u8; 16]
    );
    assert_eq!(cache.intern("").unwrap(), Some(1 - index));
    assert_eq!(cache.intern("a third").unwrap(), None);
    assert_eq!(
        open("numbered").intern("a").unwrap_err().kind(),
        ErrorKind::Unsupported
    );
}
