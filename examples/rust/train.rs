//! train: several processes learn to read handwritten digits, from samples that all of them share.
//!
//!     python ../python/cache_digits.py --file digits.csv
//!     cargo run --release --bin train digits.csv [NAME [RANKS]]
//!
//! The program starts RANKS (2) processes, as torchrun would. Each sample is read from the file by
//! one of them, once, and found by the others; where another program has the digits cached under
//! this NAME already (`python ../python/cache_digits.py NAME`), they are all found. The model is a
//! softmax regression, trained by gradient descent on digits 0 to 1436, with gradients averaged
//! over the ranks at each step as DDP does; the rest judge it.

use std::cell::{Cell, OnceCell};
use std::env;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::time::Duration;

use ddpcache::{ArraySpec, Cache, Load, Sampler, Topology, View};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

const DIGITS: usize = 1797;
const TRAINED: usize = 1437;
const PIXELS: usize = 64;
const CLASSES: usize = 10;
const WEIGHTS: usize = (PIXELS + 1) * CLASSES;
const EPOCHS: u64 = 5;
const BATCH: usize = 32;
const RATE: f32 = 0.5;

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let Some(file) = arguments.first() else {
        return Err("usage: train DIGITS.csv [NAME [RANKS]]".into());
    };
    let name = arguments.get(1).map_or("digits", String::as_str);
    let ranks = arguments.get(2).map_or(Ok(2), |ranks| ranks.parse())?;
    match env::var("MASTER_PORT") {
        Ok(port) => train(&mut Digits::open(file, name)?, &mut Group::join(&port)?),
        Err(_) => launch(ranks),
    }
}

fn train(digits: &mut Digits, group: &mut Group) -> Result<()> {
    let topology = Topology::detect()?;
    let mut sampler = Sampler::builder(TRAINED)
        .seed(7)
        .topology(topology)
        .open()?;
    let judge = Sampler::builder(DIGITS - TRAINED)
        .shuffle(false)
        .topology(topology)
        .open()?;
    let mut judged = vec![0; judge.size()];
    judge.read(0, &mut judged)?;
    // Every rank has as many, for which some come twice; each counts once.
    judged.truncate(judge.real_size()?);

    let mut model = Model {
        weights: [0.0; WEIGHTS],
    };
    for epoch in 0..EPOCHS {
        sampler.set_epoch(epoch)?;
        let indices: Vec<usize> = sampler.iter().collect();
        let mut sums = [0.0; 2];
        for batch in indices.chunks(BATCH) {
            let mut gradient = [0.0; WEIGHTS + 1];
            for &index in batch {
                digits.with(index, |pixels, label| {
                    model.learn(pixels, label, &mut gradient)
                })?;
            }
            group.sum(&mut gradient)?;
            let samples = (batch.len() as u32 * topology.world_size) as f32;
            model.step(&gradient, samples);
            sums = [sums[0] + gradient[WEIGHTS], sums[1] + samples];
        }
        let mut right = [0.0];
        for index in &judged {
            digits.with(TRAINED + index, |pixels, label| {
                right[0] += f32::from(model.answer(pixels) == label);
            })?;
        }
        group.sum(&mut right)?;
        if topology.rank == 0 {
            let accuracy = right[0] / (DIGITS - TRAINED) as f32 * 100.0;
            let (of, loss) = (epoch + 1, sums[0] / sums[1]);
            println!("epoch {of}/{EPOCHS}  loss {loss:.4}  accuracy {accuracy:.1}%");
        }
    }
    let mut counts = [digits.decoded.get() as f32, digits.used as f32];
    group.sum(&mut counts)?;
    if topology.rank == 0 {
        println!("decoded {}, found {}", counts[0], counts[1] - counts[0]);
    }
    Ok(())
}

/// The data set: a cache, and the file that it is filled from.
struct Digits {
    cache: Cache,
    file: String,
    text: OnceCell<String>,
    decoded: Cell<usize>,
    used: usize,
}

impl Digits {
    fn open(file: &str, name: &str) -> Result<Digits> {
        let cache = Cache::builder(name)
            .fingerprint("digits 1")
            .length(DIGITS)
            .capacity_bytes(4 << 20)
            .open()?;
        let text = OnceCell::new();
        Ok(Digits {
            cache,
            file: file.to_owned(),
            text,
            decoded: Cell::new(0),
            used: 0,
        })
    }

    /// Shows a digit's pixels, 0 to 16, and what digit it is.
    fn with(&mut self, index: usize, use_it: impl FnOnce(&[u8], usize)) -> Result<()> {
        self.used += 1;
        let mut own = None;
        let load = self
            .cache
            .load(index, Duration::from_secs(60), |filling| -> Result<()> {
                let (pixels, label) = self.decode(index)?;
                let specs = [
                    ArraySpec::new::<u8>(&[8, 8]).named("image"),
                    ArraySpec::new::<i64>(&[]).named("label"),
                ];
                match filling.allocate_arrays(&specs, None)? {
                    Some(mut arrays) => {
                        arrays.remove(1).into_values::<i64>()?[0] = label as i64;
                        arrays
                            .remove(0)
                            .into_values::<u8>()?
                            .copy_from_slice(&pixels);
                    }
                    None => own = Some((pixels, label)),
                }
                Ok(())
            })?;
        match (load, own) {
            (Load::Ready(view), _) => {
                let (pixels, label) = seen(&view)?;
                use_it(pixels, label);
            }
            (_, Some((pixels, label))) => use_it(&pixels, label),
            // Another process is busy with it for a minute already.
            _ => {
                let (pixels, label) = self.decode(index)?;
                use_it(&pixels, label);
            }
        }
        Ok(())
    }

    /// Line `index` of the file: 64 pixels and the digit.
    fn decode(&self, index: usize) -> Result<(Vec<u8>, usize)> {
        self.decoded.set(self.decoded.get() + 1);
        if self.text.get().is_none() {
            let text = std::fs::read_to_string(&self.file)
                .map_err(|reason| format!("{}: {reason}", self.file))?;
            self.text.get_or_init(|| text);
        }
        let line = self.text.get().and_then(|text| text.lines().nth(index));
        let line = line.ok_or_else(|| format!("{} has no line {}", self.file, index + 1))?;
        let mut numbers = line
            .split(',')
            .map(str::parse)
            .collect::<Result<Vec<u8>, _>>()?;
        match numbers.pop() {
            Some(label) if numbers.len() == PIXELS => Ok((numbers, label.into())),
            _ => Err(format!(
                "{}: line {} has no 64 pixels and a label",
                self.file,
                index + 1
            ))?,
        }
    }
}

fn seen<'a>(view: &'a View<'_>) -> Result<(&'a [u8], usize)> {
    let (Some(image), Some(label)) = (view.named("image")?, view.named("label")?) else {
        return Err(format!("sample {} is no digit", view.index()).into());
    };
    Ok((image.values()?, label.values::<i64>()?[0] as usize))
}

/// Softmax regression: ten sums of weighted pixels and a bias.
struct Model {
    weights: [f32; WEIGHTS],
}

impl Model {
    fn inputs(pixels: &[u8]) -> impl Iterator<Item = f32> + '_ {
        pixels
            .iter()
            .map(|&pixel| f32::from(pixel) / 16.0)
            .chain([1.0])
    }

    fn probabilities(&self, pixels: &[u8]) -> [f32; CLASSES] {
        let mut sums = [0.0; CLASSES];
        for (input, weights) in Model::inputs(pixels).zip(self.weights.chunks(CLASSES)) {
            sums.iter_mut()
                .zip(weights)
                .for_each(|(sum, weight)| *sum += input * weight);
        }
        let largest = sums.iter().copied().fold(f32::MIN, f32::max);
        let powers = sums.map(|sum| (sum - largest).exp());
        powers.map(|power| power / powers.iter().sum::<f32>())
    }

    fn answer(&self, pixels: &[u8]) -> usize {
        let found = self.probabilities(pixels);
        (0..CLASSES)
            .max_by(|&a, &b| found[a].total_cmp(&found[b]))
            .unwrap_or(0)
    }

    /// Adds a digit's gradient, and behind that its loss.
    fn learn(&self, pixels: &[u8], label: usize, gradient: &mut [f32]) {
        let mut errors = self.probabilities(pixels);
        gradient[WEIGHTS] -= errors[label].ln();
        errors[label] -= 1.0;
        for (input, to) in Model::inputs(pixels).zip(gradient.chunks_mut(CLASSES)) {
            to.iter_mut()
                .zip(errors)
                .for_each(|(sum, error)| *sum += input * error);
        }
    }

    fn step(&mut self, gradient: &[f32], samples: f32) {
        for (weight, slope) in self.weights.iter_mut().zip(gradient) {
            *weight -= RATE * slope / samples;
        }
    }
}

/// The ranks, each connected to the program that started them, which adds up what they send.
struct Group {
    stream: TcpStream,
}

impl Group {
    fn join(port: &str) -> Result<Group> {
        let mut stream = TcpStream::connect(("127.0.0.1", port.parse()?))?;
        stream.set_nodelay(true)?;
        stream.write_all(&env::var("RANK")?.parse::<u32>()?.to_le_bytes())?;
        Ok(Group { stream })
    }

    /// Replaces each number by the sum over all ranks.
    fn sum(&mut self, numbers: &mut [f32]) -> Result<()> {
        let bytes: Vec<u8> = numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        self.stream
            .write_all(&(numbers.len() as u32).to_le_bytes())?;
        self.stream.write_all(&bytes)?;
        read_numbers(&mut self.stream, numbers)
    }
}

fn read_numbers(stream: &mut TcpStream, numbers: &mut [f32]) -> Result<()> {
    let mut bytes = vec![0; numbers.len() * 4];
    stream.read_exact(&mut bytes)?;
    for (number, four) in numbers.iter_mut().zip(bytes.chunks(4)) {
        *number = f32::from_le_bytes(four.try_into()?);
    }
    Ok(())
}

/// Starts the ranks, and adds up what they send until they end.
fn launch(ranks: u32) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let mut children = Ranks(Vec::new());
    for rank in 0..ranks {
        let (rank, ranks) = (rank.to_string(), ranks.to_string());
        let child = Command::new(env::current_exe()?)
            .args(env::args().skip(1))
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", listener.local_addr()?.port().to_string())
            .envs([("RANK", &rank), ("LOCAL_RANK", &rank)])
            .envs([("WORLD_SIZE", &ranks), ("LOCAL_WORLD_SIZE", &ranks)])
            .spawn()?;
        children.0.push(child);
    }
    let mut streams = Vec::new();
    listener.set_nonblocking(true)?;
    while streams.len() < children.0.len() {
        match listener.accept() {
            Ok((stream, _)) => streams.push(greeted(stream)?),
            Err(_) if children.any_failed()? => return Err("a rank has failed".into()),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    // In the order of ranks, so that sums are the same in every run.
    streams.sort_by_key(|(rank, _)| *rank);
    while add_up(&mut streams)? {}
    children.wait()
}

fn greeted(mut stream: TcpStream) -> Result<(u32, TcpStream)> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    let mut rank = [0; 4];
    stream.read_exact(&mut rank)?;
    Ok((u32::from_le_bytes(rank), stream))
}

/// One sum over all ranks; false where they have ended.
fn add_up(streams: &mut [(u32, TcpStream)]) -> Result<bool> {
    let mut sums: Vec<f32> = Vec::new();
    for (_, stream) in &mut *streams {
        let mut length = [0; 4];
        if stream.read_exact(&mut length).is_err() {
            return Ok(false);
        }
        let mut numbers = vec![0.0; u32::from_le_bytes(length) as usize];
        read_numbers(stream, &mut numbers)?;
        sums.resize(numbers.len(), 0.0);
        sums.iter_mut()
            .zip(numbers)
            .for_each(|(sum, number)| *sum += number);
    }
    let bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
    for (_, stream) in streams {
        stream.write_all(&bytes)?;
    }
    Ok(true)
}

/// The processes, none of which is left behind.
struct Ranks(Vec<Child>);

impl Ranks {
    fn any_failed(&mut self) -> Result<bool> {
        for child in &mut self.0 {
            if child.try_wait()?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn wait(&mut self) -> Result<()> {
        for (rank, child) in self.0.iter_mut().enumerate() {
            let status = child.wait()?;
            if !status.success() {
                return Err(format!("rank {rank} failed: {status}").into());
            }
        }
        Ok(())
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
