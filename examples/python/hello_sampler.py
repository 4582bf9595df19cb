"""hello_sampler: how the samples of a data set are dealt to two machines of two ranks each, over three epochs.

Each rank's process would open only its own sampler; this program opens all four to show them side by side. Watch that a
machine's samples stay the same while their order changes: what it cached in epoch 0 it reads again in epoch 1.
"""

from ddpcache import Sampler, Topology

LENGTH, NODES, RANKS_PER_NODE, EPOCHS = 18, 2, 2, 3

samplers = [
    Sampler(LENGTH, seed=7, topology=Topology(node, NODES, rank, RANKS_PER_NODE))
    for node in range(NODES)
    for rank in range(RANKS_PER_NODE)
]
for epoch in range(EPOCHS):
    for number, sampler in enumerate(samplers):
        node, rank = divmod(number, RANKS_PER_NODE)
        sampler.set_epoch(epoch)
        # Beyond real_size there are repeats, which give every rank the same number of samples.
        cells = (f"{index:2}" if p < sampler.real_size else f"({index})" for p, index in enumerate(sampler))
        print(f"epoch {epoch}  node {node}  rank {rank}:", *cells)
