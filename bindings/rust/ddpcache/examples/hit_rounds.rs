//! Hits through this crate, for tests/bench/languages.py: attaches to the cache named, and for each
//! line with a number makes that many hits, sample after sample. A hit is a view of the sample and
//! a look at its bytes; the sum of all lengths is the answer.

use std::env;
use std::error::Error;
use std::io::{self, BufRead, Write};

use ddpcache::Cache;

fn hit(cache: &Cache, length: usize, count: usize) -> Result<usize, Box<dyn Error>> {
    let mut bytes = 0;
    for i in 0..count {
        bytes += cache.view(i % length)?.ok_or("a miss")?.bytes().len();
    }
    Ok(bytes)
}

fn main() -> Result<(), Box<dyn Error>> {
    let name = env::args().nth(1).ok_or("usage: hit_rounds NAME")?;
    let cache = Cache::builder(&name).attach()?;
    let length = cache.info()?.length;
    for line in io::stdin().lock().lines() {
        println!("{}", hit(&cache, length, line?.trim().parse()?)?);
        io::stdout().flush()?;
    }
    Ok(())
}
