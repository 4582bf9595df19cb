//! The sampler, the permutation and the topology.

use std::collections::BTreeSet;

use ddpcache::{ErrorKind, Order, Permutation, Place, Purpose, Sampler, Tail, Topology};

const LENGTH: usize = 103;

fn sampler(node: u32, nodes: u32, local_rank: u32, local_size: u32) -> Sampler {
    let topology = Topology::new(node, nodes, local_rank, local_size);
    Sampler::builder(LENGTH)
        .seed(7)
        .topology(topology)
        .open()
        .unwrap()
}

fn world(nodes: u32, local_size: u32) -> Vec<Sampler> {
    (0..nodes * local_size)
        .map(|rank| sampler(rank / local_size, nodes, rank % local_size, local_size))
        .collect()
}

#[test]
fn the_ranks_of_an_epoch_have_each_sample_once_but_for_repeats_at_the_end() {
    for epoch in [0, 3] {
        let mut seen: Vec<usize> = Vec::new();
        for mut sampler in world(2, 3) {
            sampler.set_epoch(epoch).unwrap();
            assert_eq!(sampler.size(), 18);
            let mut all = vec![0; sampler.size()];
            sampler.read(0, &mut all).unwrap();
            let iterated: Vec<usize> = sampler.iter().collect();
            assert_eq!(iterated, all);
            assert_eq!(sampler.try_next().unwrap(), None);
            seen.extend(&all[..sampler.real_size().unwrap()]);
        }
        seen.sort();
        assert_eq!(seen, (0..LENGTH).collect::<Vec<_>>());
    }
}

#[test]
fn a_node_keeps_its_samples_while_their_order_changes() {
    let mut sampler = sampler(1, 2, 0, 1);
    let mut orders = Vec::new();
    for epoch in 0..3 {
        sampler.set_epoch(epoch).unwrap();
        orders.push(sampler.iter().collect::<Vec<_>>());
    }
    assert_ne!(orders[0], orders[1]);
    let set = |order: &[usize]| order.iter().copied().collect::<BTreeSet<_>>();
    assert_eq!(set(&orders[0]), set(&orders[1]));
    assert_eq!(set(&orders[0]), set(&orders[2]));
    let mut shard = vec![0; sampler.shard_size()];
    sampler.read_shard(0, &mut shard).unwrap();
    assert_eq!(set(&shard), set(&orders[0]));
    assert!((0..LENGTH).all(|index| sampler.keeps(index).unwrap() == shard.contains(&index)));
    assert_eq!(sampler.keeps(LENGTH).unwrap_err().kind(), ErrorKind::Range);
}

#[test]
fn positions_are_sought_told_and_found() {
    let mut sampler = sampler(0, 1, 1, 2);
    sampler.set_epoch(2).unwrap();
    let all: Vec<usize> = sampler.iter().collect();
    sampler.seek(50).unwrap();
    assert_eq!((sampler.epoch(), sampler.position()), (2, 50));
    let rest = sampler.iter();
    assert_eq!(rest.len(), all.len() - 50);
    assert_eq!(rest.collect::<Vec<_>>(), all[50..]);
    assert_eq!(
        sampler.seek(all.len() + 1).unwrap_err().kind(),
        ErrorKind::Range
    );
    assert_eq!(
        sampler.find(all[9]).unwrap(),
        Some(Place {
            rank: 1,
            position: 9
        })
    );
    assert_eq!(sampler.find(LENGTH).unwrap_err().kind(), ErrorKind::Range);
    assert_eq!(
        sampler.read(0, &mut vec![0; 60]).unwrap_err().kind(),
        ErrorKind::Range
    );

    let topology = Topology::new(0, 1, 0, 2);
    let dropping = Sampler::builder(LENGTH)
        .tail(Tail::Drop)
        .topology(topology)
        .open()
        .unwrap();
    let lost = (0..LENGTH)
        .filter(|&index| dropping.find(index).unwrap().is_none())
        .count();
    assert_eq!(lost, 1);
}

#[test]
fn an_epoch_is_resumed_under_another_layout_without_loss_or_repeat() {
    let mut seen: Vec<usize> = Vec::new();
    let mut state = Vec::new();
    for mut sampler in world(2, 2) {
        sampler.set_epoch(5).unwrap();
        seen.extend(sampler.iter().take(10));
        state = sampler.save_state(10).unwrap();
    }
    for mut sampler in world(1, 3) {
        sampler.load_state(&state).unwrap();
        sampler.set_epoch(5).unwrap();
        let real = sampler.real_size().unwrap();
        seen.extend(sampler.iter().take(real));
        assert_eq!(sampler.epoch(), 5);
    }
    seen.sort();
    assert_eq!(seen, (0..LENGTH).collect::<Vec<_>>());

    let mut other = Sampler::builder(LENGTH).seed(8).open().unwrap();
    let error = other.load_state(&state).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SamplerState);
    assert!(error.to_string().contains('8'), "{error}");
    state[20] ^= 1;
    assert_eq!(
        other.load_state(&state).unwrap_err().kind(),
        ErrorKind::SamplerState
    );
    assert_eq!(
        other.save_state(LENGTH + 1).unwrap_err().kind(),
        ErrorKind::Range
    );
}

#[test]
fn options_that_do_not_go_together_are_errors() {
    let builder = Sampler::builder(LENGTH);
    let refused = |builder: &ddpcache::SamplerBuilder| builder.open().unwrap_err().kind();
    assert_eq!(
        refused(&builder.clone().order(Order::Torch).tail(Tail::Exact)),
        ErrorKind::Argument
    );
    assert_eq!(
        refused(&builder.clone().exchange_ppm(1_000_001)),
        ErrorKind::Range
    );
    assert_eq!(
        refused(&builder.clone().topology(Topology::new(2, 2, 0, 1))),
        ErrorKind::Range
    );
    assert_eq!(refused(&Sampler::builder(usize::MAX)), ErrorKind::Range);
    let empty = Sampler::builder(1)
        .tail(Tail::Drop)
        .topology(Topology::new(0, 2, 0, 1));
    assert_eq!(refused(&empty), ErrorKind::Empty);
    let plain = Sampler::builder(4)
        .order(Order::Viscy)
        .shuffle(false)
        .open()
        .unwrap()
        .iter()
        .count();
    assert_eq!(plain, 4);
}

#[test]
fn a_permutation_has_each_index_once_and_an_inverse() {
    for length in [1, 1000, 5000] {
        let order = Permutation::new(length, 1, 2, 3, Purpose::User).unwrap();
        let mut all = vec![0; length];
        order.read(0, &mut all).unwrap();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), length);
        assert_eq!(order.at(length - 1).unwrap(), all[length - 1]);
        assert_eq!(order.inverse(all[0]).unwrap(), 0);
        assert_eq!(order.at(length).unwrap_err().kind(), ErrorKind::Range);
    }
    let (ring, inner) = (Purpose::Ring, Purpose::Inner);
    let at = |purpose| {
        Permutation::new(1 << 40, 1, 0, 0, purpose)
            .unwrap()
            .at(0)
            .unwrap()
    };
    assert_ne!(at(ring), at(inner));
}
