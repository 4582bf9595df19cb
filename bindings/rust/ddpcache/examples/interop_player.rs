//! Shares caches, samplers and their states with programs in other languages: one of the players of
//! tests/interop, which says what its commands are.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::io::{self, BufRead, Write};
use std::time::Duration;

use ddpcache::{
    Array, ArrayMut, ArraySpec, Cache, Claim, DType, Filling, Order, Sampler, Tail, Topology, View,
};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

const WAIT: Duration = Duration::from_secs(60);

fn main() -> Result<()> {
    let mut player = Player::default();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == "quit" {
            break;
        }
        match player.play(&words) {
            Ok(answer) => println!("{answer}"),
            Err(reason) => println!("error {}", reason.to_string().replace('\n', " ")),
        }
        io::stdout().flush()?;
    }
    Ok(())
}

#[derive(Default)]
struct Player {
    caches: HashMap<String, Cache>,
}

impl Player {
    fn play(&mut self, words: &[&str]) -> Result<String> {
        match *words {
            ["fill", name, records] => {
                let records = read_records(records)?;
                fill(self.open(name, records.len())?, &records)?;
            }
            ["read", name, records] => {
                let records = read_records(records)?;
                read(self.open(name, records.len())?, &records)?;
            }
            ["load", name, records] => {
                let records = read_records(records)?;
                return Ok(format!(
                    "ok {}",
                    load(self.open(name, records.len())?, &records)?
                ));
            }
            ["close", name] => self.caches.remove(name).ok_or("it is not open")?.close()?,
            ["sampler", cases] => {
                for line in fs::read_to_string(cases)?.lines() {
                    check_order(&Case::parse(line)?)?;
                }
            }
            ["save", case, consumed, file] => {
                let case = Case::parse(fs::read_to_string(case)?.trim_end())?;
                fs::write(file, case.open()?.save_state(consumed.parse()?)?)?;
            }
            ["resume", case, file] => {
                let case = Case::parse(fs::read_to_string(case)?.trim_end())?;
                check_rest(&case, &fs::read(file)?)?;
            }
            _ => return Err(format!("no such command: {}", words.join(" ")).into()),
        }
        Ok("ok".into())
    }

    fn open(&mut self, name: &str, length: usize) -> Result<&Cache> {
        if !self.caches.contains_key(name) {
            let cache = Cache::builder(name)
                .length(length)
                .capacity_bytes(64 << 20)
                .sample_bytes_max(1 << 20)
                .fingerprint("interop")
                .open()?;
            self.caches.insert(name.to_owned(), cache);
        }
        Ok(&self.caches[name])
    }
}

/// What a sample must be; its bytes follow from its number.
#[derive(Default)]
struct Record {
    structure: Option<String>,
    arrays: Vec<ArrayOfRecord>,
}

struct ArrayOfRecord {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
}

impl ArrayOfRecord {
    /// Byte k of array `number` of record `index`.
    fn bytes(&self, index: usize, number: usize) -> Vec<u8> {
        let length = self.shape.iter().product::<usize>() * self.dtype.bytes();
        let modulus = if self.dtype.code == DType::BOOL.code {
            2
        } else {
            251
        };
        let byte = |k: usize| (31 * index + 7 * number + k) % 251 % modulus;
        (0..length).map(|k| byte(k) as u8).collect()
    }

    fn spec(&self) -> ArraySpec {
        ArraySpec::of(self.dtype, &self.shape).named(&*self.name)
    }
}

fn read_records(path: &str) -> Result<Vec<Record>> {
    let mut records: Vec<Record> = Vec::new();
    for line in fs::read_to_string(path)?.lines() {
        match *line.split(' ').collect::<Vec<_>>() {
            ["record", "-"] => records.push(Record::default()),
            ["record", structure] => {
                let structure = Some(String::from_utf8(from_hexadecimal(structure)?)?);
                records.push(Record {
                    structure,
                    arrays: Vec::new(),
                });
            }
            ["array", name, code, bits, lanes, ref dimensions @ ..] => {
                let record = records
                    .last_mut()
                    .ok_or("an array before the first record")?;
                record.arrays.push(ArrayOfRecord {
                    name: if name == "-" {
                        String::new()
                    } else {
                        name.to_owned()
                    },
                    dtype: DType {
                        code: code.parse()?,
                        bits: bits.parse()?,
                        lanes: lanes.parse()?,
                    },
                    shape: dimensions
                        .iter()
                        .map(|d| d.parse())
                        .collect::<Result<_, _>>()?,
                });
            }
            _ => return Err(format!("not understood: {line}").into()),
        }
    }
    Ok(records)
}

fn from_hexadecimal(text: &str) -> Result<Vec<u8>> {
    let digits: Vec<u32> = text
        .chars()
        .map(|c| c.to_digit(16).ok_or("no hexadecimal digit"))
        .collect::<Result<_, _>>()?;
    Ok(digits
        .chunks(2)
        .map(|two| two.iter().fold(0, |sum, d| sum * 16 + d) as u8)
        .collect())
}

fn fill(cache: &Cache, records: &[Record]) -> Result<()> {
    for (index, record) in records.iter().enumerate() {
        let Claim::Fill(mut fill) = cache.begin_fill(index, WAIT)? else {
            return Err(format!("record {index} cannot be claimed").into());
        };
        let specs: Vec<ArraySpec> = record.arrays.iter().map(ArrayOfRecord::spec).collect();
        let arrays = fill.allocate_arrays(&specs, record.structure.as_deref())?;
        write(arrays.ok_or("there is no room")?, index, record);
        fill.commit()?;
    }
    Ok(())
}

fn write(arrays: Vec<ArrayMut<'_>>, index: usize, record: &Record) {
    for (number, (to, array)) in arrays.into_iter().zip(&record.arrays).enumerate() {
        to.into_data().copy_from_slice(&array.bytes(index, number));
    }
}

fn read(cache: &Cache, records: &[Record]) -> Result<()> {
    for (index, record) in records.iter().enumerate() {
        let view = cache
            .view(index)?
            .ok_or_else(|| format!("record {index} is not there"))?;
        compare(&view, record)?;
    }
    Ok(())
}

fn load(cache: &Cache, records: &[Record]) -> Result<usize> {
    let mut calls = 0;
    for (index, record) in records.iter().enumerate() {
        let load = cache.load(index, WAIT, |filling: &mut Filling<'_>| -> Result<()> {
            calls += 1;
            let specs: Vec<ArraySpec> = record.arrays.iter().map(ArrayOfRecord::spec).collect();
            let arrays = filling.allocate_arrays(&specs, record.structure.as_deref())?;
            write(arrays.ok_or("there is no room")?, index, record);
            Ok(())
        })?;
        compare(&load.required()?, record)?;
    }
    Ok(calls)
}

fn compare(view: &View<'_>, record: &Record) -> Result<()> {
    let index = view.index();
    let wrong = |what: String| Err(format!("record {index}: {what}").into());
    if view.structure()? != record.structure.as_deref() {
        return wrong(format!(
            "structure {:?}, not {:?}",
            view.structure()?,
            record.structure
        ));
    }
    if view.array_count() != record.arrays.len() {
        return wrong(format!(
            "{} arrays, not {}",
            view.array_count(),
            record.arrays.len()
        ));
    }
    for (number, (found, wanted)) in view.arrays()?.iter().zip(&record.arrays).enumerate() {
        let same = (found.name(), found.dtype(), found.shape())
            == (&*wanted.name, wanted.dtype, &*wanted.shape);
        if !same {
            return wrong(format!(
                "array {number} is {:?} {} {:?}, not {:?} {} {:?}",
                found.name(),
                found.dtype(),
                found.shape(),
                wanted.name,
                wanted.dtype,
                wanted.shape
            ));
        }
        let bytes = wanted.bytes(index, number);
        if found.data() != bytes || typed_bytes(found)?.is_some_and(|typed| typed != bytes) {
            return wrong(format!(
                "array {number}, of {}, has other bytes",
                found.dtype()
            ));
        }
    }
    Ok(())
}

/// The elements as Rust's own type sees them, in bytes again; `None` where it has no such type.
fn typed_bytes(array: &Array<'_>) -> Result<Option<Vec<u8>>> {
    macro_rules! seen {
        ($element:ty) => {
            array
                .values::<$element>()?
                .iter()
                .flat_map(|value| value.to_ne_bytes())
                .collect()
        };
        ($element:ty; 2) => {
            array
                .values::<[$element; 2]>()?
                .iter()
                .flatten()
                .flat_map(|value| value.to_ne_bytes())
                .collect()
        };
    }
    Ok(Some(match array.dtype() {
        DType::INT8 => seen!(i8),
        DType::INT16 => seen!(i16),
        DType::INT32 => seen!(i32),
        DType::INT64 => seen!(i64),
        DType::UINT8 | DType::BOOL => seen!(u8),
        DType::UINT16 | DType::FLOAT16 | DType::BFLOAT16 => seen!(u16),
        DType::UINT32 => seen!(u32),
        DType::UINT64 => seen!(u64),
        DType::FLOAT32 => seen!(f32),
        DType::FLOAT64 => seen!(f64),
        DType::COMPLEX64 => seen!(f32; 2),
        DType::COMPLEX128 => seen!(f64; 2),
        _ => return Ok(None),
    }))
}

/// A sampler, and all that it must deal.
struct Case {
    order: Order,
    tail: Tail,
    shuffle: bool,
    length: usize,
    seed: u64,
    epoch: u64,
    topology: Topology,
    indices: Vec<usize>,
}

impl Case {
    fn parse(line: &str) -> Result<Case> {
        let words: Vec<&str> = line.split(' ').collect();
        let [order, tail, shuffle, length, seed, epoch, nodes, local_size, node, local_rank, count, indices @ ..] =
            words.as_slice()
        else {
            return Err(format!("a case of {} words", words.len()).into());
        };
        let indices: Vec<usize> = indices
            .iter()
            .map(|i| i.parse())
            .collect::<Result<_, _>>()?;
        if count.parse::<usize>()? != indices.len() {
            return Err(format!("a case of {count} indices has {}", indices.len()).into());
        }
        Ok(Case {
            order: match *order {
                "0" => Order::Node,
                "1" => Order::Torch,
                "2" => Order::Viscy,
                _ => return Err(format!("no such order: {order}").into()),
            },
            tail: match *tail {
                "0" => Tail::Pad,
                "1" => Tail::Drop,
                "2" => Tail::Exact,
                _ => return Err(format!("no such tail: {tail}").into()),
            },
            shuffle: *shuffle == "1",
            length: length.parse()?,
            seed: seed.parse()?,
            epoch: epoch.parse()?,
            topology: Topology::new(
                node.parse()?,
                nodes.parse()?,
                local_rank.parse()?,
                local_size.parse()?,
            ),
            indices,
        })
    }

    fn open(&self) -> Result<Sampler> {
        let mut sampler = Sampler::builder(self.length)
            .order(self.order)
            .tail(self.tail)
            .shuffle(self.shuffle)
            .seed(self.seed)
            .topology(self.topology)
            .open()?;
        sampler.set_epoch(self.epoch)?;
        Ok(sampler)
    }
}

fn check_order(case: &Case) -> Result<()> {
    check_dealt(&mut case.open()?, &case.indices)
}

/// That the sampler deals just these, read at once and one by one.
fn check_dealt(sampler: &mut Sampler, wanted: &[usize]) -> Result<()> {
    let mut read = vec![0; sampler.size()];
    sampler.read(0, &mut read)?;
    for dealt in [read, sampler.iter().collect()] {
        if dealt != wanted {
            let at = dealt.iter().zip(wanted).position(|(a, b)| a != b);
            let (dealt, wanted) = (dealt.len(), wanted.len());
            return Err(format!("{dealt} dealt, {wanted} wanted, other ones from {at:?}").into());
        }
    }
    Ok(())
}

fn check_rest(case: &Case, state: &[u8]) -> Result<()> {
    let mut sampler = case.open()?;
    sampler.load_state(state)?;
    let done = case
        .indices
        .len()
        .checked_sub(sampler.size())
        .ok_or("more left than there was")?;
    check_dealt(&mut sampler, &case.indices[done..])
}
