"How the arrays of the sample that was looked at last are nested: mostly that of the next one too."
struct Nesting
    names::Vector{String}
    types::Vector{Any}
    type::Any  # the tuple or named tuple
end

const NO_NESTING = Nesting(String[], Any[], Nothing)

const OPEN_SECONDS = 10
const CHECKSUMS = (:off, :fill, :read)
# Far below zero, so that a call that comes in while the cache is closed finds the count still negative.
const CLOSED = typemin(Int) ÷ 2

"""
    Cache(name; length, fingerprint, ...)
    Cache(f, name; length, fingerprint, ...)
    Cache(name; read_only = false, directory = nothing, timeout = 10)

Opens the cache of this name, or creates it: of any number of processes exactly one does. With a name alone it attaches
to a cache that a process has open, and to no other. The form with `f`, for a do-block, closes the cache after it.

    cache[i]                    sample i, or a KeyError
    get(cache, i, default)      sample i, or the default
    get!(f, cache, i)           sample i, which f() makes if no process has made it yet
    load!(f, cache, i)          the same, where f decodes straight into the cache's memory
    cache[i] = sample           stores a sample, or throws; put!(cache, i, sample) tells whether it did
    haskey(cache, i)            whether sample i is there
    delete!(cache, i)           removes sample i from a droppable cache
    cache[indices]              a vector of samples

A sample is an array, a number, or a tuple or named tuple of these. It comes back as read-only arrays without a copy
([`CacheArray`](@ref)), a number as an array of no dimensions: `x[]` is its value. In a keyed cache a sample has a key
instead of an index: text, bytes, an integer, or a tuple of these.

- `length`: samples of the data set
- `fingerprint`: identifies the data: data set, version, deterministic transform. `nothing`, which must be said, for
  none: such a cache is never taken over by a later job
- `capacity`: bytes for samples; 0: half of what is free
- `sample_bytes`: where all samples have one size: the bytes of a sample's arrays, each rounded up to 64
- `sample_bytes_max`: the largest sample in bytes; 0: capacity/256, or `sample_bytes` if that is set
- `keep`: the cache stays when its last client has left, until [`unlink`](@ref)
- `directory`: a directory of your own instead of shared memory
- `partial`: where `capacity` is more than is free, take what is free instead of failing
- `droppable`: samples can be removed
- `checksums`: `:off`, `:fill` or `:read`
- `keyed`: samples have keys; `length` should be 1.3 times their number
- `clients_max`: processes that may be attached at one time; 0: 1,024
- `interleave`, `huge_pages`: where the samples' memory lies
- `job_id`: a number that [`info`](@ref) shows to others
- `read_only`: attach to a cache in use or kept, without being able to change anything in it
- `timeout`: seconds to wait for the lock under which names are made

Any task and thread may use a cache. `close` ends the use of it, and arrays stay valid after it; the last process that
closes removes the cache, unless it was opened to `keep`. What a program forgets to close is closed when it is collected
or the program ends. include/ddpcache/cache.h has the whole of it.
"""
mutable struct Cache
    handle::Ptr{Raw.dc_cache}
    users::Threads.Atomic{Int}  # calls under way; CLOSED and more once it is closed
    length::Int
    keyed::Bool
    read_only::Bool
    name::String
    directory::Union{Nothing, String}
    uuid::String
    nesting::Nesting
end

function Cache(
    name::AbstractString;
    length::Union{Nothing, Integer} = nothing,
    fingerprint::Union{Nothing, AbstractString, Missing} = missing,
    directory::Union{Nothing, AbstractString} = nothing,
    timeout::Real = OPEN_SECONDS,
    read_only::Bool = false,
    options...,
)
    if length === nothing && ismissing(fingerprint)
        isempty(options) || throw(ArgumentError(
            "to create a cache, give length and fingerprint too; to attach to one, its name, directory, read_only " *
            "and timeout alone, and not $(join(keys(options), ", "))",
        ))
        return attach(name, directory, timeout, read_only)
    end
    read_only && throw(ArgumentError("read_only attaches to a cache that is there: give its name and directory alone"))
    (length === nothing || ismissing(fingerprint)) && throw(ArgumentError(
        "to create a cache, give length and fingerprint (nothing: none); to attach to one, give neither",
    ))
    wanted = cache_options(; length = length, timeout = timeout, options...)
    handle, reasons = Ref{Ptr{Raw.dc_cache}}(C_NULL), no_error()
    status = Raw.dc_cache_open(name, pointer_or_null(directory), pointer_or_null(fingerprint), wanted, handle, reasons)
    checked(status, reasons)
    return opened(handle[], directory)
end

function Cache(f::Function, name::AbstractString; options...)
    cache = Cache(name; options...)
    try
        return f(cache)
    finally
        close(cache)
    end
end

pointer_or_null(text::AbstractString) = text
pointer_or_null(::Nothing) = C_NULL

function attach(name, directory, timeout, read_only)
    handle, reasons = Ref{Ptr{Raw.dc_cache}}(C_NULL), no_error()
    call = read_only ? Raw.dc_cache_attach_read_only : Raw.dc_cache_attach
    status = call(name, pointer_or_null(directory), nanoseconds("timeout", timeout), handle, reasons)
    checked(status, reasons)
    cache = opened(handle[], directory)
    # A kept cache that nobody has open may be of an old data set.
    if !read_only && info(cache).adopted
        close(cache)
        throw(DDPCacheError(
            Raw.DC_ERROR_NOT_FOUND,
            "no process is attached to the cache \"$name\": give length and fingerprint to take it over",
        ))
    end
    return cache
end

function opened(handle::Ptr{Raw.dc_cache}, directory)
    users = Threads.Atomic{Int}(0)
    folder = directory === nothing ? nothing : abspath(directory)
    cache = Cache(handle, users, 0, false, false, "", folder, "", NO_NESTING)
    finalizer(close_collected, cache)
    found = info(cache)
    cache.length, cache.keyed, cache.read_only = found.length, found.keyed, found.read_only
    cache.name, cache.uuid = found.name, found.uuid
    return cache
end

"The C options of keyword arguments."
function cache_options(;
    length::Integer,
    capacity::Integer = 0,
    sample_bytes::Integer = 0,
    sample_bytes_max::Integer = 0,
    keep::Bool = false,
    partial::Bool = false,
    droppable::Bool = false,
    checksums::Symbol = :off,
    keyed::Bool = false,
    clients_max::Integer = 0,
    interleave::Bool = false,
    huge_pages::Bool = false,
    job_id::Integer = 0,
    timeout::Real = OPEN_SECONDS,
)
    checksum = findfirst(isequal(checksums), CHECKSUMS)
    checksum === nothing && throw(ArgumentError("checksums is one of $(join(CHECKSUMS, ", ")), not $checksums"))
    return Ref(Raw.dc_cache_options(
        sizeof(Raw.dc_cache_options),
        whole(UInt32, "clients_max", clients_max),
        whole(Int64, "length", length),
        whole(UInt64, "capacity", capacity),
        whole(UInt64, "sample_bytes", sample_bytes),
        whole(UInt64, "sample_bytes_max", sample_bytes_max),
        nanoseconds("timeout", timeout),
        whole(UInt64, "job_id", job_id),
        keep, partial, droppable, keyed, checksum - 1, interleave, huge_pages, 0,
    ))
end

function whole(::Type{T}, what, value::Integer) where {T}
    typemin(T) <= value <= typemax(T) || throw(ArgumentError("$what is $value, outside of $(typemin(T)):$(typemax(T))"))
    return T(value)
end

"""
    close(cache)

Ends this process's use of the cache at once; the last process that does removes it, unless it is kept. Arrays of it
stay valid. An error where a call of another task is still under way, in a loader of this very cache too.
"""
function Base.close(cache::Cache)
    calls = Threads.atomic_cas!(cache.users, 0, CLOSED)
    calls < 0 && return nothing
    calls == 0 || throw(DDPCacheError(
        Raw.DC_ERROR_STATE, "the cache \"$(cache.name)\" cannot be closed: $calls calls with it are under way",
    ))
    status = Raw.dc_cache_close(cache.handle)
    # Nothing was done where a fill that was begun by hand is open.
    status == Raw.DC_ERROR_STATE ? Threads.atomic_xchg!(cache.users, 0) : (cache.handle = C_NULL)
    checked(status)
    return nothing
end

function close_collected(cache::Cache)
    Threads.atomic_cas!(cache.users, 0, CLOSED) == 0 && Raw.dc_cache_close(cache.handle)
    return nothing
end

Base.isopen(cache::Cache) = cache.users[] >= 0

@noinline throw_closed(cache) = throw(DDPCacheError(Raw.DC_ERROR_STATE, "the cache \"$(cache.name)\" is closed"))

"Runs f(handle) while the cache cannot be closed."
@inline function using_handle(f, cache::Cache)
    if Threads.atomic_add!(cache.users, 1) < 0
        Threads.atomic_sub!(cache.users, 1)
        throw_closed(cache)
    end
    try
        return GC.@preserve cache f(cache.handle)
    finally
        Threads.atomic_sub!(cache.users, 1)
    end
end

"The same for a call that cannot throw, at the cost of a hit."
@inline function using_handle_nothrow(f, cache::Cache)
    if Threads.atomic_add!(cache.users, 1) < 0
        Threads.atomic_sub!(cache.users, 1)
        throw_closed(cache)
    end
    result = GC.@preserve cache f(cache.handle)
    Threads.atomic_sub!(cache.users, 1)
    return result
end

"Indices of a cache, and positions of a keyed one's samples in [`residency`](@ref)."
Base.length(cache::Cache) = cache.length
Base.firstindex(cache::Cache) = 1
Base.lastindex(cache::Cache) = cache.length
Base.eachindex(cache::Cache) = Base.OneTo(cache.length)

function Base.show(io::IO, cache::Cache)
    print(io, "Cache(\"", cache.name, "\"")
    isopen(cache) ? print(io, ", ", stats(cache).resident, " of ", cache.length, " samples)") : print(io, ", closed)")
end

"""
    unlink(name; directory = nothing)

Removes a cache's name at once, kept or not. Processes that have it open go on with it.
"""
function unlink(name::AbstractString; directory::Union{Nothing, AbstractString} = nothing)
    reasons = no_error()
    checked(Raw.dc_cache_unlink(name, pointer_or_null(directory), reasons), reasons)
    return nothing
end

"""
    gc_caches(; directory = nothing) -> Int

Removes every cache of this user that nobody is attached to and that is not kept, and tells how many.
"""
function gc_caches(; directory::Union{Nothing, AbstractString} = nothing)
    reasons, removed = no_error(), Ref{Int32}(0)
    checked(Raw.dc_cache_gc(pointer_or_null(directory), removed, reasons), reasons)
    return Int(removed[])
end

"""
    cache_names(; directory = nothing) -> Vector{String}

The names of this user's caches, sorted.
"""
function cache_names(; directory::Union{Nothing, AbstractString} = nothing)
    buffer, needed = UInt8[], Ref{UInt64}(0)
    while true
        reasons = no_error()
        status = Raw.dc_cache_list(pointer_or_null(directory), buffer, length(buffer), needed, reasons)
        if status != Raw.DC_ERROR_BUFFER
            checked(status, reasons)
            return String.(split(String(buffer[1:needed[]]), '\n'; keepempty = false))
        end
        resize!(buffer, needed[])
    end
end

"""
    estimate(length, sample_bytes; fixed = false, clients_max = 0, keyed = false) -> (capacity = ..., total = ...)

How large a cache must be for `length` samples of `sample_bytes` bytes (each array rounded up to 64): what to ask for
as `capacity`, and what it then takes in all. `fixed`: it will be opened with this `sample_bytes`.
"""
function estimate(length::Integer, sample_bytes::Integer; fixed = false, clients_max = 0, keyed = false)
    options = cache_options(;
        length = length, sample_bytes = fixed ? sample_bytes : 0, sample_bytes_max = sample_bytes,
        clients_max = clients_max, keyed = keyed,
    )
    capacity, total, reasons = Ref{UInt64}(0), Ref{UInt64}(0), no_error()
    checked(Raw.dc_cache_estimate(options, sample_bytes, capacity, total, reasons), reasons)
    return (capacity = Int(capacity[]), total = Int(total[]))
end

# A cache that is sent to another process of this machine is attached to there: that very one, and no other of its name.
const ATTACHED = Dict{String, WeakRef}()
const ATTACHED_LOCK = ReentrantLock()

function Serialization.serialize(stream::AbstractSerializer, cache::Cache)
    Serialization.serialize_type(stream, Cache)
    for part in (cache.name, cache.directory, cache.uuid, cache.read_only)
        Serialization.serialize(stream, part)
    end
end

function Serialization.deserialize(stream::AbstractSerializer, ::Type{Cache})
    name, directory, uuid, read_only = ntuple(_ -> Serialization.deserialize(stream), 4)
    return lock(ATTACHED_LOCK) do
        known = get(ATTACHED, uuid, WeakRef(nothing)).value
        known isa Cache && isopen(known) && known.read_only == read_only && return known
        ATTACHED[uuid] = WeakRef(reattach(name, directory, uuid, read_only))
        return ATTACHED[uuid].value::Cache
    end
end

function reattach(name, directory, uuid, read_only)
    handle, reasons = Ref{Ptr{Raw.dc_cache}}(C_NULL), no_error()
    call = read_only ? Raw.dc_cache_attach_read_only : Raw.dc_cache_attach
    status = call(name, pointer_or_null(directory), nanoseconds("timeout", OPEN_SECONDS), handle, reasons)
    checked(status, reasons)
    cache = opened(handle[], directory)
    cache.uuid == uuid && return cache
    found = cache.uuid
    close(cache)
    throw(DDPCacheError(
        Raw.DC_ERROR_MISMATCH, "the cache \"$name\" was made anew: its uuid is $found, and that of the one sent $uuid",
    ))
end

Base.deepcopy_internal(cache::Cache, ::IdDict) = cache
