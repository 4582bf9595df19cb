"""
One cache of decoded samples per machine, in shared memory, shared by every process that opens it, whatever its
language; and the sampler that shuffles without moving samples between machines.

    using DDPCache
    Cache("digits"; length = 60_000, fingerprint = "digits v1") do cache
        image = get!(cache, 7) do
            decode(7)                   # by one process of the machine, once
        end
    end

Indices are 1-based: `cache[i]` is what C and Python call index i - 1. Dimensions are reversed, since Julia's first one
runs fastest: an image that C knows as (height, width, channels) has the size (channels, width, height) here, without a
copy; [`rowmajor`](@ref) gives it C's order of dimensions.

The module `DDPCache.Raw` is the C interface itself.
"""
module DDPCache

include("raw.jl")

using .Raw: Raw
using Serialization: Serialization, AbstractSerializer

export Cache, CachedData, CacheArray, DDPCacheError, DType, Fill, FillArray, ShardedSampler, Topology
export allocate!, bfloat16, cache_names, check, describe, dtype, estimate, find, gather, gather!, gc_caches, info, intern
export keeps, load!, load_state!, lookup, populate!, real_size, release, remove!, residency, restore, rowmajor, save
export save_state, saved_info, set_epoch!, shard, stats, structure, topology, typed, unlink, withsample

include("structs.jl")
include("errors.jl")
include("dtypes.jl")
include("arrays.jl")
include("cache.jl")
include("keys.jl")
include("looking.jl")
include("filling.jl")
include("loading.jl")
include("batches.jl")
include("reports.jl")
include("saving.jl")
include("sampler.jl")
include("data.jl")

function __init__()
    # Not constants: a pointer that is stored in a precompiled module is one of another process.
    LOADER[] = @cfunction(run_loader, Int32, (Ptr{Raw.dc_fill}, Int64, Any))
    PROGRESS[] = @cfunction(run_progress, Int32, (UInt64, UInt64, Any))
end

end
