//! hello_sampler: how the samples of a data set are dealt to two machines of two ranks each, over
//! three epochs.
//!
//! Each rank's process would open only its own sampler; this program opens all four to show them
//! side by side. Watch that a machine's samples stay the same while their order changes: what it
//! cached in epoch 0 it reads again in epoch 1.
//!
//!     cargo run --bin hello_sampler

use ddpcache::{Error, Sampler, Topology};

const LENGTH: usize = 18;
const NODES: u32 = 2;
const RANKS_PER_NODE: u32 = 2;
const EPOCHS: u64 = 3;

fn main() -> Result<(), Error> {
    let mut samplers = Vec::new();
    for node in 0..NODES {
        for rank in 0..RANKS_PER_NODE {
            let topology = Topology::new(node, NODES, rank, RANKS_PER_NODE);
            let sampler = Sampler::builder(LENGTH).seed(7).topology(topology).open()?;
            samplers.push((node, rank, sampler));
        }
    }
    for epoch in 0..EPOCHS {
        for (node, rank, sampler) in &mut samplers {
            sampler.set_epoch(epoch)?;
            // Beyond real_size there are repeats, which give every rank the same number of samples.
            let real_size = sampler.real_size()?;
            let cells: String = sampler
                .iter()
                .enumerate()
                .map(|(p, index)| match p < real_size {
                    true => format!(" {index:2}"),
                    false => format!(" ({index})"),
                })
                .collect();
            println!("epoch {epoch}  node {node}  rank {rank}:{cells}");
        }
    }
    Ok(())
}
