# hello_sampler: how the samples of a data set are dealt to two machines of two ranks each, over three epochs.
#
# Each rank's process would open only its own sampler; this program opens all four to show them side by side. Watch that
# a machine's samples stay the same while their order changes: what it cached in epoch 0 it reads again in epoch 1.
#
#     julia --project=../../bindings/julia hello_sampler.jl

using DDPCache

const LENGTH, NODES, RANKS_PER_NODE, EPOCHS = 18, 2, 2, 3

places = [
    Topology(; node = node, nodes = NODES, local_rank = rank, local_size = RANKS_PER_NODE)
    for node in 0:(NODES - 1) for rank in 0:(RANKS_PER_NODE - 1)
]
samplers = [ShardedSampler(LENGTH; seed = 7, topology = place) for place in places]
for epoch in 0:(EPOCHS - 1), (sampler, place) in zip(samplers, places)
    set_epoch!(sampler, epoch)
    print("epoch $epoch  node $(place.node)  rank $(place.local_rank):")
    for (position, i) in enumerate(sampler)
        index = i - 1  # as the other languages number it
        # Beyond real_size there are repeats, which give every rank the same number of samples.
        print(" ", position <= real_size(sampler) ? lpad(index, 2) : "($index)")
    end
    println()
end
