# One array of each sample of a batch: where it goes, and what it must be.
struct Destination{T, N}
    array::Array{T, N}
    dtype::DType
end

sample_size(to::Destination) = size(to.array)[1:(end - 1)]
sample_bytes(to::Destination{T}) where {T} = sizeof(T) * prod(sample_size(to))

"""
    gather(cache, indices; threads = 1)

The samples of many indices as one: arrays with one dimension more, the last, along which they lie in the order of
`indices`. A sample of several arrays gives a tuple or named tuple. All must have the same types and sizes. They are
copied in one pass, by several threads of the library where asked.

A `KeyError` with the first index whose sample is not there.
"""
function gather(cache::Cache, indices::AbstractVector; threads::Integer = 1)
    isempty(indices) && throw(ArgumentError("a batch of no samples has no type and size"))
    return withsample(cache, first(indices)) do sample
        arrays = sample isa CacheArray ? (sample,) : Tuple(sample)
        destinations = map(arrays) do array
            batch = Array{eltype(array), ndims(array) + 1}(undef, size(array)..., length(indices))
            Destination(batch, array.dtype)
        end
        gather_into(destinations, cache, indices, threads)
        batches = map(to -> to.array, destinations)
        sample isa CacheArray && return batches[1]
        return sample isa NamedTuple ? NamedTuple{keys(sample)}(batches) : batches
    end
end

"""
    gather!(batch, cache, indices; threads = 1)

The same into arrays that are there: one array, or a tuple or named tuple with one for each array of a sample.
"""
function gather!(batch, cache::Cache, indices::AbstractVector; threads::Integer = 1)
    arrays = batch isa AbstractArray ? (batch,) : Tuple(batch)
    for array in arrays
        array isa Array || throw(ArgumentError("a batch goes into an Array, not a $(typeof(array))"))
        ndims(array) > 0 && size(array)[end] == length(indices) || throw(DimensionMismatch(
            "an array of size $(size(array)) is not for a batch of $(length(indices)) samples",
        ))
    end
    isempty(indices) || gather_into(map(array -> Destination(array, dtype(array)), arrays), cache, indices, threads)
    return batch
end

function gather_into(destinations::Tuple, cache::Cache, indices, threads)
    wanted = Int64[index_of(cache, i) for i in indices]
    at = findfirst(index -> index < 0, wanted)
    at === nothing || throw_missing(indices[at])
    for (number, to) in enumerate(destinations)
        compare_samples(cache, indices, wanted, number - 1, to, length(destinations))
    end
    parts = [
        Raw.dc_gather(pointer(to.array), C_NULL, sample_bytes(to), number - 1, 0)
        for (number, to) in enumerate(destinations)
    ]
    statuses = Vector{Int32}(undef, length(wanted))
    status = using_handle(cache) do handle
        GC.@preserve destinations gather_once(handle, wanted, parts, statuses, whole(UInt32, "threads", threads))
    end
    check_batch(status, statuses, indices)
end

@noinline function gather_once(
    handle::Ptr{Raw.dc_cache}, wanted::Vector{Int64}, parts::Vector{Raw.dc_gather}, statuses::Vector{Int32},
    threads::UInt32,
)
    samples, count = Int64(length(wanted)), UInt32(length(parts))
    GC.@preserve wanted parts statuses begin
        to_wanted, to_parts, to_statuses = pointer(wanted), pointer(parts), pointer(statuses)
        return @gcsafe Raw.dc_cache_gather(handle, to_wanted, samples, to_parts, count, to_statuses, threads)
    end
end

"Sees to it that one array of every sample has the type and size of the destination: the copy compares bytes alone."
function compare_samples(cache::Cache, indices, wanted, number, to::Destination, array_count)
    found = Vector{Raw.dc_array}(undef, length(wanted))
    counts, statuses = Vector{UInt32}(undef, length(wanted)), Vector{Int32}(undef, length(wanted))
    status = using_handle(cache) do handle
        Raw.dc_cache_describe_batch(handle, wanted, length(wanted), number, found, counts, C_NULL, statuses)
    end
    check_batch(status, statuses, indices)
    for at in eachindex(found)
        stored, size = description(found, at)
        counts[at] == array_count && stored == to.dtype && size == sample_size(to) || throw(DDPCacheError(
            Raw.DC_ERROR_RECORD,
            "the sample of $(indices[at]) is not as the batch: it has $(counts[at]) arrays, and number $(number + 1) " *
            "is a $(julia_type(stored)) of size $size, not one of $array_count that is a $(julia_type(to.dtype)) of " *
            "size $(sample_size(to))",
        ))
    end
end

function description(found::Vector{Raw.dc_array}, at)
    GC.@preserve found begin
        memory = Ptr{UInt8}(pointer(found, at))
        stored = DType(
            field(memory, Raw.dc_array, :dtype_code),
            field(memory, Raw.dc_array, :dtype_bits),
            field(memory, Raw.dc_array, :dtype_lanes),
        )
        N, shape = Int(field(memory, Raw.dc_array, :dimensions)), Ptr{Int64}(memory + offset_of(Raw.dc_array, :shape))
        return stored, Tuple(Int(unsafe_load(shape, d)) for d in N:-1:1)
    end
end

function check_batch(status, statuses, indices)
    status == Raw.DC_OK && return nothing
    at = findfirst(isequal(status), statuses)
    at === nothing && return checked(status)
    status == Raw.DC_MISS && throw_missing(indices[at])
    throw(DDPCacheError(status, "the sample of $(indices[at]): $(unsafe_string(Raw.dc_strerror(status)))"))
end

"""
    residency(cache) -> BitVector

For each index, whether its sample is in the cache.
"""
function residency(cache::Cache)
    bits = falses(length(cache))
    GC.@preserve bits checked(using_handle(cache) do handle
        Raw.dc_cache_residency(handle, 0, length(cache), Ptr{UInt8}(pointer(bits.chunks)))
    end)
    return bits
end

"""
    populate!(cache)

Lets a thread of the library map the samples that are there into this process, so that a first pass over them does not
stop at page faults.
"""
populate!(cache::Cache) = (checked(using_handle(Raw.dc_cache_populate, cache)); cache)
