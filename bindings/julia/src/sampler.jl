const ORDERS = (:node, :torch, :viscy)
const TAILS = (:pad, :drop, :exact)
const LAUNCHERS = (:none, :torchrun, :open_mpi, :mpi, :slurm, :lightning)
# Indices that an iteration draws at once: where a batch reaches its full speed.
const BLOCK = 4096

"""
    Topology(; node = 0, nodes = 1, local_rank = 0, local_size = 1)

Where a process stands among the nodes and ranks of a job. Nodes and ranks are counted from 0, as launchers do.
"""
struct Topology
    node::Int
    nodes::Int
    local_rank::Int
    local_size::Int
    rank::Int
    launcher::Symbol
end

function Topology(; node = 0, nodes = 1, local_rank = 0, local_size = 1, rank = node * local_size + local_rank)
    return Topology(node, nodes, local_rank, local_size, rank, :none)
end

"""
    topology() -> Topology

The layout of the job, from the environment variables of its launcher (torchrun, Slurm, Open MPI, MPICH, Lightning); one
process where there are none. An error lists the variables where they contradict each other or leave it unknown.
"""
function topology()
    found, reasons = sized(Raw.dc_topology), no_error()
    checked(Raw.dc_topology_detect(found, reasons), reasons)
    place = found[]
    return Topology(
        place.node, place.nodes, place.local_rank, place.local_size, place.rank, LAUNCHERS[place.launcher + 1],
    )
end

"""
    ShardedSampler(length; order = :node, tail = :pad, shuffle = true, seed = 0, topology = topology(), epoch = 0, ...)

Deals the indices 1:length of a data set to the ranks of a job, anew each epoch. It is the vector of what this rank is
dealt in the current epoch, so that it can be iterated, indexed, partitioned into batches and given as indices.

    sampler = ShardedSampler(length(data); seed = 7)
    for epoch in 0:9
        set_epoch!(sampler, epoch)
        for indices in Iterators.partition(sampler, 32)
            train(data[indices])
        end
    end

- `order`: `:node` shuffles without moving samples between nodes, so that what a node has cached stays useful; `:torch`
  and `:viscy` deal exactly as torch's DistributedSampler and VisCy's ShardedDistributedSampler do
- `tail`: what happens where the samples do not divide: `:pad` repeats some, `:drop` leaves some out, `:exact` deals
  each once, so that ranks differ by one (`:node` only)
- `shuffle`: a new order each epoch
- `seed`, `ring_seed`: of the orders, and of the placement of samples on nodes
- `ring_identity`: nodes hold contiguous parts of the data set
- `exchange`: with `:node`, the fraction of a node's samples that are new to it each epoch, 0 to 1
- `canonical_nodes`: with `:node`, deal as for this many nodes, a multiple of those there are; 0: as many as there are
- `topology`: this rank's [`Topology`](@ref)

All ranks must be given the same arguments but for their place, and the same epochs. Epochs are counted from 0. A
sampler is for one task at a time. include/ddpcache/sampler.h has the whole of it.
"""
mutable struct ShardedSampler <: AbstractVector{Int}
    handle::Ptr{Raw.dc_sampler}
    options::Raw.dc_sampler_options
    topology::Topology
    size::Int
end

function ShardedSampler(
    length::Integer;
    order::Symbol = :node,
    tail::Symbol = :pad,
    shuffle::Bool = true,
    seed::Integer = 0,
    ring_seed::Integer = 0,
    ring_identity::Bool = false,
    exchange::Real = 0,
    canonical_nodes::Integer = 0,
    topology::Topology = topology(),
    epoch::Integer = 0,
)
    0 <= exchange <= 1 || throw(ArgumentError("exchange is a fraction from 0 to 1, not $exchange"))
    options = Ref(Raw.dc_sampler_options(
        sizeof(Raw.dc_sampler_options),
        choice("order", order, ORDERS),
        choice("tail", tail, TAILS),
        shuffle,
        whole(UInt32, "node", topology.node),
        whole(UInt32, "nodes", topology.nodes),
        whole(UInt32, "local_rank", topology.local_rank),
        whole(UInt32, "local_size", topology.local_size),
        whole(Int64, "length", length),
        whole(UInt64, "seed", seed),
        whole(UInt64, "ring_seed", ring_seed),
        ring_identity,
        round(UInt32, exchange * 1_000_000),
        whole(UInt32, "canonical_nodes", canonical_nodes),
        0,
    ))
    handle, reasons = Ref{Ptr{Raw.dc_sampler}}(C_NULL), no_error()
    checked(Raw.dc_sampler_open(options, handle, reasons), reasons)
    sampler = ShardedSampler(handle[], options[], topology, 0)
    finalizer(sampler -> Raw.dc_sampler_close(sampler.handle), sampler)
    sampler.size = current_size(sampler)
    epoch == 0 || set_epoch!(sampler, epoch)
    return sampler
end

function choice(what, wanted::Symbol, choices)
    at = findfirst(isequal(wanted), choices)
    at === nothing && throw(ArgumentError("$what is one of $(join(repr.(choices), ", ")), not $(repr(wanted))"))
    return Int32(at - 1)
end

# What is passed to a raw call is kept from collection while it runs.
Base.unsafe_convert(::Type{Ptr{Raw.dc_sampler}}, sampler::ShardedSampler) = sampler.handle

"A number that a raw call stores where it succeeds."
function number_from(call, arguments...)
    found = Ref{Int64}(0)
    checked(call(arguments..., found))
    return Int(found[])
end

current_size(sampler) = number_from(Raw.dc_sampler_size, sampler)

Base.size(sampler::ShardedSampler) = (sampler.size,)
Base.IndexStyle(::Type{ShardedSampler}) = IndexLinear()

function Base.getindex(sampler::ShardedSampler, position::Int)
    @boundscheck checkbounds(sampler, position)
    index, reasons = Ref{Int64}(0), no_error()
    checked(Raw.dc_sampler_read(sampler, position - 1, index, 1, reasons), reasons)
    return Int(index[]) + 1
end

function Base.getindex(sampler::ShardedSampler, positions::AbstractUnitRange{<:Integer})
    @boundscheck checkbounds(sampler, positions)
    return indices_at(Raw.dc_sampler_read, sampler, first(positions), length(positions))
end
Base.getindex(sampler::ShardedSampler, ::Colon) = sampler[1:length(sampler)]
Base.collect(sampler::ShardedSampler) = sampler[:]

function indices_at(call, sampler, position, count)
    indices, reasons = Vector{Int64}(undef, count), no_error()
    count == 0 && return indices
    checked(call(sampler, position - 1, indices, count, reasons), reasons)
    return indices .+= 1
end

function Base.iterate(sampler::ShardedSampler, (block, at) = (Int[], 1))
    position, within = at, (at - 1) % BLOCK + 1
    position > length(sampler) && return nothing
    if within == 1
        block = sampler[position:min(position + BLOCK - 1, length(sampler))]
    end
    return block[within], (block, position + 1)
end

"""
    epoch(sampler)

The current epoch, from 0.
"""
function epoch(sampler::ShardedSampler)
    found = Ref{Int64}(0)
    checked(Raw.dc_sampler_tell(sampler, found, C_NULL))
    return Int(found[])
end

"""
    set_epoch!(sampler, epoch)

Goes to an epoch, from 0 on. The epoch of a state that was just loaded stays what it is, the rest of an epoch; any other
is whole.
"""
function set_epoch!(sampler::ShardedSampler, epoch::Integer)
    reasons = no_error()
    checked(Raw.dc_sampler_set_epoch(sampler, epoch, reasons), reasons)
    sampler.size = current_size(sampler)
    return sampler
end

"""
    real_size(sampler)

How many of this rank's samples, the first ones, are no repeats: a metric that counts only these is exact.
"""
function real_size(sampler::ShardedSampler)
    found, reasons = Ref{Int64}(0), no_error()
    checked(Raw.dc_sampler_real_size(sampler, found, reasons), reasons)
    return Int(found[])
end

"""
    shard(sampler) -> Vector{Int}

The indices that this node holds, in one order for all its ranks: what its cache needs room for.
"""
function shard(sampler::ShardedSampler)
    return indices_at(Raw.dc_sampler_shard_read, sampler, 1, number_from(Raw.dc_sampler_shard_size, sampler))
end

"""
    keeps(sampler, index) -> Bool

Whether this node holds the sample in this epoch or held it in the last: others may be removed.
"""
keeps(sampler::ShardedSampler, index::Integer) =
    checked(Raw.dc_sampler_keeps(sampler, data_index(sampler, index))) == Raw.DC_OK

"""
    find(sampler, index) -> (rank, position)

The rank, from 0, and the position, from 1, where this epoch deals an index first; `nothing` where it does not.
"""
function find(sampler::ShardedSampler, index::Integer)
    rank, position, reasons = Ref{UInt32}(0), Ref{Int64}(0), no_error()
    status = Raw.dc_sampler_find(sampler, data_index(sampler, index), rank, position, reasons)
    return checked(status, reasons) == Raw.DC_END ? nothing : (Int(rank[]), Int(position[]) + 1)
end

function data_index(sampler::ShardedSampler, index)
    1 <= index <= sampler.options.length || throw(BoundsError(1:sampler.options.length, index))
    return Int64(index) - 1
end

"""
    save_state(sampler, consumed) -> Vector{UInt8}

Where the epoch stands, for [`load_state!`](@ref) of samplers under this or another number of nodes and ranks, in any
language. `consumed` is how many samples *each* rank was trained on since the epoch began or was resumed. All ranks give
the same bytes.
"""
function save_state(sampler::ShardedSampler, consumed::Integer)
    state, bytes, reasons = Vector{UInt8}(undef, Raw.DC_SAMPLER_STATE_BYTES_MAX), Ref{UInt64}(0), no_error()
    checked(Raw.dc_sampler_state_save(sampler, consumed, state, length(state), bytes, reasons), reasons)
    return resize!(state, bytes[])
end

"""
    load_state!(sampler, state)

Goes on where a saved epoch was stopped: its rest is dealt anew, nothing twice and nothing lost. The sampler is then the
rest, until [`set_epoch!`](@ref) goes to another epoch. It must have been made with the arguments of the one that was
saved, but for its place and `exchange`.
"""
function load_state!(sampler::ShardedSampler, state::AbstractVector{UInt8})
    bytes, reasons = Vector{UInt8}(state), no_error()
    checked(Raw.dc_sampler_state_load(sampler, bytes, length(bytes), reasons), reasons)
    sampler.size = current_size(sampler)
    return sampler
end

Base.deepcopy_internal(::ShardedSampler, ::IdDict) =
    throw(ArgumentError("a ShardedSampler is not copied: make another with the same arguments, or collect it"))
Serialization.serialize(stream::AbstractSerializer, sampler::ShardedSampler) =
    Serialization.serialize(stream, collect(sampler))

function Base.show(io::IO, sampler::ShardedSampler)
    place = sampler.topology
    print(io, "ShardedSampler(", sampler.options.length, " samples, epoch ", epoch(sampler), ", ", length(sampler))
    print(io, " of rank ", place.rank, " of ", place.nodes * place.local_size, ")")
end
Base.show(io::IO, ::MIME"text/plain", sampler::ShardedSampler) = show(io, sampler)
