//! What a hit costs through this crate, and through the C functions that it calls: a view of one
//! sample and a look at its first byte, the same with a comparison of the element type, and a copy
//! of its 4 KiB. Nanoseconds, the median of rounds in which all ways take turns, as JSON.
//!
//!     cargo run --release --example hit_cost

use std::hint::black_box;
use std::time::{Duration, Instant};

use ddpcache::{ffi, Cache, Error};

const BYTES: usize = 4096;
const ROUNDS: usize = 21;
const HITS: u32 = 100_000;

fn main() -> Result<(), Error> {
    let cache = Cache::builder(format!("hit-cost-{}", std::process::id()))
        .length(1)
        .capacity_bytes(1 << 20)
        .sample_bytes_max(BYTES as u64)
        .open()?;
    let filled = cache.load(0, Duration::ZERO, |filling| {
        if let Some(bytes) = filling.allocate::<u8>(&[BYTES])? {
            bytes.fill(1);
        }
        Ok::<_, Error>(())
    });
    filled?.required()?;

    let ways: [(&str, &dyn Fn()); 5] = [
        ("rust_view_ns", &|| view(&cache)),
        ("rust_typed_view_ns", &|| typed_view(&cache)),
        ("c_view_ns", &|| c_view(&cache)),
        ("rust_read_ns", &|| read(&cache)),
        ("c_read_ns", &|| c_read(&cache)),
    ];
    let mut times: [Vec<f64>; 5] = Default::default();
    // The first round warms up.
    for round in 0..=ROUNDS {
        for ((_, way), times) in ways.iter().zip(&mut times) {
            let begin = Instant::now();
            way();
            let nanoseconds = begin.elapsed().as_secs_f64() * 1e9 / f64::from(HITS);
            if round > 0 {
                times.push(nanoseconds);
            }
        }
    }
    let medians: Vec<String> = ways
        .iter()
        .zip(&mut times)
        .map(|((name, _), times)| {
            times.sort_by(f64::total_cmp);
            format!("\"{name}\": {:.2}", times[ROUNDS / 2])
        })
        .collect();
    println!(
        "{{\"rounds\": {ROUNDS}, \"hits\": {HITS}, {}}}",
        medians.join(", ")
    );
    Ok(())
}

fn view(cache: &Cache) {
    for _ in 0..HITS {
        let view = cache.view(black_box(0)).unwrap().unwrap();
        black_box(view.bytes()[0]);
    }
}

fn typed_view(cache: &Cache) {
    for _ in 0..HITS {
        let view = cache.view(black_box(0)).unwrap().unwrap();
        black_box(view.values::<u8>().unwrap()[0]);
    }
}

fn read(cache: &Cache) {
    let mut buffer = [0u8; BYTES];
    for _ in 0..HITS {
        cache.read(black_box(0), 0, &mut buffer).unwrap();
        black_box(&buffer);
    }
}

fn c_view(cache: &Cache) {
    for _ in 0..HITS {
        let mut view = std::mem::MaybeUninit::<ffi::dc_view>::uninit();
        // SAFETY: the handle is open; the view is initialised where the call says so, and released
        // once.
        unsafe {
            assert_eq!(
                ffi::dc_cache_view(cache.as_raw(), black_box(0), view.as_mut_ptr()),
                0
            );
            black_box(*view.assume_init_ref().data);
            ffi::dc_cache_view_release(view.as_mut_ptr());
        }
    }
}

fn c_read(cache: &Cache) {
    let mut buffer = [0u8; BYTES];
    let mut bytes = 0;
    for _ in 0..HITS {
        let (index, to, room) = (black_box(0), buffer.as_mut_ptr(), BYTES as u64);
        // SAFETY: the handle is open; the buffer has this room.
        let status = unsafe { ffi::dc_cache_read(cache.as_raw(), index, 0, to, room, &mut bytes) };
        assert_eq!(status, 0);
        black_box(&buffer);
    }
}
