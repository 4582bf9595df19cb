//! hello_cache: ten samples in a cache that any number of programs, in any language, share while
//! one of them runs.
//!
//! Start it, or its namesakes in the other languages, several times at once with the same name:
//! each sample is decoded by one of them and found by the others.
//!
//!     cargo run --bin hello_cache [NAME]

use std::time::Duration;

use ddpcache::{Cache, Error};

const LENGTH: usize = 10;
const SHAPE: [usize; 2] = [2, 3];

fn main() -> Result<(), Error> {
    let name = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "hello_cache".into());
    let cache = Cache::builder(name)
        .fingerprint("hello_cache 1")
        .length(LENGTH)
        .capacity_bytes(1 << 20)
        .open()?;

    let mut decoded = 0;
    for index in 0..LENGTH {
        // Stands for reading and decoding a file: it learns the shape, asks for memory, and decodes
        // straight into it.
        let load = cache.load(index, Duration::from_secs(60), |filling| {
            if let Some(values) = filling.allocate::<i32>(&SHAPE)? {
                for (i, value) in values.iter_mut().enumerate() {
                    *value = (index * 100 + i) as i32;
                }
            }
            decoded += 1;
            Ok::<_, Error>(())
        })?;
        let view = load.required()?;
        let array = view.array(0)?;
        let (values, shape) = (array.values::<i32>()?, array.shape());
        println!(
            "sample {index}: {} x {}, from {} to {}",
            shape[0],
            shape[1],
            values[0],
            values[values.len() - 1]
        );
    }
    println!("decoded {decoded}, found {}", LENGTH - decoded);
    Ok(())
}
