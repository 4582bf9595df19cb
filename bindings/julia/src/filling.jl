# ---- What a sample is made of. ----

"One array of a sample to be stored: its values and its name."
struct Part
    values::Any
    dtype::DType
    name::String
end

const NAME_BYTES_MAX = 55

Part(values::AbstractArray, name) = Part(values, dtype(eltype(values)), name)
Part(values::Typed, name) = Part(values.array, values.dtype, name)
Part(value::Number, name) = Part(fill(value), dtype(typeof(value)), name)
# Stored again as what it was: a bfloat16 does not become a UInt16 by the way.
Part(values::CacheArray, name) = Part(values, values.dtype, name)
Part(value, name) = throw(ArgumentError(
    "a cache cannot hold a $(typeof(value)): a sample is an array, a number, or a tuple or named tuple of these" *
    (value isa AbstractString ? "; text is Vector{UInt8}(codeunits(text))" : ""),
))

"The arrays of a sample."
parts_of(sample) = [Part(sample, "")]
parts_of(sample::Tuple) = [Part(value, "") for value in sample]
function parts_of(sample::NamedTuple)
    return [Part(value, checked_name(String(name))) for (name, value) in pairs(sample)]
end

function checked_name(name::String)
    sizeof(name) <= NAME_BYTES_MAX && !('\0' in name) ||
        throw(ArgumentError("the name $(repr(name)) of an array is longer than $NAME_BYTES_MAX bytes or holds a NUL"))
    return name
end

"The arrays of a sample as C has them: types, sizes and names."
function described(types::Vector{DType}, sizes::Vector{<:Dims}, names::Vector{String})
    arrays = Vector{Raw.dc_array}(undef, length(types))
    GC.@preserve arrays names for at in eachindex(arrays)
        describe!(Ptr{UInt8}(pointer(arrays, at)), types[at], sizes[at], names[at])
    end
    return arrays
end

function describe!(memory::Ptr{UInt8}, stored::DType, size::Dims, name::String)
    N = length(size)
    N <= Raw.DC_DIMENSIONS_MAX || throw(ArgumentError(
        "an array of a sample has at most $(Raw.DC_DIMENSIONS_MAX) dimensions, not $N",
    ))
    ccall(:memset, Ptr{Cvoid}, (Ptr{Cvoid}, Cint, Csize_t), memory, 0, sizeof(Raw.dc_array))
    set_field!(memory, Raw.dc_array, :dtype_code, stored.code)
    set_field!(memory, Raw.dc_array, :dtype_bits, stored.bits)
    set_field!(memory, Raw.dc_array, :dtype_lanes, stored.lanes)
    set_field!(memory, Raw.dc_array, :dimensions, N)
    for d in 1:N
        unsafe_store!(Ptr{Int64}(memory + offset_of(Raw.dc_array, :shape)), size[N + 1 - d], d)
    end
    unsafe_copyto!(memory + offset_of(Raw.dc_array, :name), pointer(name), sizeof(name))
end

"Where the arrays of a sample lie, once C has found them memory."
function data_of(arrays::Vector{Raw.dc_array}, at)
    GC.@preserve arrays field(Ptr{UInt8}(pointer(arrays, at)), Raw.dc_array, :data)
end

# ---- A fill under way. ----

"""
    Fill

The right to store one sample, which [`load!`](@ref) hands to its function.
"""
mutable struct Fill
    handle::Ptr{Raw.dc_fill}  # C_NULL: of private memory, or ended
    is_private::Bool          # nothing of it will be stored
    has_ended::Bool
    arrays::Any               # what was allocated, nested as it was asked for
end

Fill(handle::Ptr{Raw.dc_fill}) = Fill(handle, handle == C_NULL, false, nothing)
Base.isopen(fill::Fill) = !fill.has_ended
has_allocated(fill::Fill) = fill.arrays !== nothing

"""
    allocate!(fill, T, size...)
    allocate!(fill, (T, size), (T, size), ...)
    allocate!(fill, (image = (UInt8, (3, 32, 32)), label = (Int64, ()), ...))

Memory for the sample of a fill: one array, or a tuple or named tuple of several. It is not initialised, and all of it
must be written before the loader returns. Once for each fill. A [`DType`](@ref) may stand for T; a tuple may have a
third part, the name of its array; `structure` is JSON for other languages, see docs/format.md.

Where the cache has no room, it is memory of this process, and the sample will be the caller's alone.
"""
function allocate!(fill::Fill, T::Union{Type, DType}, size::Integer...; structure = nothing)
    return allocate_parts(fill, [(T, size, "")], only, structure)
end
allocate!(fill::Fill, T::Union{Type, DType}, size::Dims; options...) = allocate!(fill, T, size...; options...)
function allocate!(fill::Fill, parts::Tuple...; structure = nothing)
    wanted = [(part[1], part[2], length(part) > 2 ? checked_name(String(part[3])) : "") for part in parts]
    return allocate_parts(fill, wanted, Tuple, structure)
end
function allocate!(fill::Fill, parts::NamedTuple{names}; structure = nothing) where {names}
    wanted = [(part[1], part[2], checked_name(String(name))) for (name, part) in pairs(parts)]
    return allocate_parts(fill, wanted, arrays -> NamedTuple{names}(Tuple(arrays)), structure)
end

function allocate_parts(fill::Fill, parts::Vector, nested, structure)
    isopen(fill) || throw(DDPCacheError(Raw.DC_ERROR_STATE, "the loader of this fill has returned"))
    has_allocated(fill) && throw(DDPCacheError(Raw.DC_ERROR_STATE, "this fill has its memory already"))
    types = DType[T isa DType ? T : dtype(T) for (T, _, _) in parts]
    sizes = Dims[Dims(size) for (_, size, _) in parts]
    arrays = described(types, sizes, String[name for (_, _, name) in parts])
    allocate_raw!(fill, arrays, structure)
    fill.arrays = nested(map(eachindex(parts)) do at
        T, N = element_type(parts[at][1]), length(sizes[at])
        fill.is_private ? Array{T, N}(undef, sizes[at]) :
        FillArray{T, N, Fill}(fill, data_of(arrays, at), sizes[at])
    end)
    return fill.arrays
end

"Asks C for memory, after which the fill is private where there is none."
function allocate_raw!(fill::Fill, arrays::Vector{Raw.dc_array}, structure)
    fill.is_private && return nothing
    reasons = no_error()
    status = Raw.dc_cache_fill_allocate(fill.handle, arrays, length(arrays), pointer_or_null(structure), reasons)
    checked(status, reasons)
    fill.is_private = status == Raw.DC_FULL
    return nothing
end

element_type(T::Type) = T
element_type(stored::DType) = julia_type(stored)

"Stores a whole sample in a fill; false where there is no room, and nothing was copied."
function store!(fill::Fill, sample)
    parts = parts_of(sample)
    fill.is_private && return false
    sizes = Dims[size(part.values) for part in parts]
    arrays = described(DType[part.dtype for part in parts], sizes, String[part.name for part in parts])
    allocate_raw!(fill, arrays, nothing)
    fill.is_private && return false
    for at in eachindex(parts)
        copy_in!(fill, data_of(arrays, at), parts[at].values)
    end
    fill.arrays = sample
    return true
end

# Behind a barrier, since the types of a sample's parts are known at run time only.
function copy_in!(fill::Fill, data::Ptr{UInt8}, from::AbstractArray{T, N}) where {T, N}
    isempty(from) || copyto!(FillArray{T, N, Fill}(fill, data, size(from)), from)
    return nothing
end

"Runs f while this task stays on its thread: a fill belongs to the thread that began it."
function on_this_thread(f)
    task = current_task()
    was_sticky = task.sticky
    task.sticky = true
    try
        return f()
    finally
        task.sticky = was_sticky
    end
end

"""
    put!(cache, i, sample; timeout = 0) -> Bool

Stores a sample, and tells whether it did: false where it is there already, another process is filling it (for which it
waits up to `timeout` seconds), or there is no room.
"""
function Base.put!(cache::Cache, i, sample; timeout::Real = 0)
    return put_status(cache, i, sample, timeout) == Raw.DC_OK
end

"""
    cache[i] = sample

Stores a sample. A [`DDPCacheError`](@ref) with the status `Raw.DC_PRESENT`, `DC_BUSY` or `DC_FULL` where it does not.
"""
function Base.setindex!(cache::Cache, sample, i)
    status = put_status(cache, i, sample, 0)
    status == Raw.DC_OK || throw(DDPCacheError(status))
    return cache
end

function put_status(cache::Cache, i, sample, timeout)
    parts_of(sample)  # what cannot be stored is refused before anything is claimed
    index = index_to_fill(cache, i)
    index < 0 && return Raw.DC_FULL
    wait_ns = nanoseconds("timeout", timeout)
    return using_handle(cache) do raw
        on_this_thread() do
            handle = Ref{Ptr{Raw.dc_fill}}(C_NULL)
            status = begin_fill(raw, index, wait_ns, handle)
            checked(status)
            status == Raw.DC_OK || return status
            return filled_by_hand(handle[], sample)
        end
    end
end

# Waits in parts, between which other tasks and Julia's own interrupts come through.
function begin_fill(raw::Ptr{Raw.dc_cache}, index::Int64, wait_ns::Int64, handle::Ref{Ptr{Raw.dc_fill}})
    deadline = deadline_after(wait_ns)
    while true
        part, began = min(WAIT_PART_NS, left_until(deadline)), time_ns()
        status = begin_fill_once(raw, index, part, handle)
        status == Raw.DC_ERROR_RECURSION && !is_in_loader() && (status = Raw.DC_BUSY)  # another task of this thread
        status == Raw.DC_BUSY || status == Raw.DC_INTERRUPTED || return status
        (left_until(deadline) == 0 || is_in_loader()) && return Raw.DC_BUSY
        pause(began, part)
    end
end

@noinline function begin_fill_once(
    raw::Ptr{Raw.dc_cache}, index::Int64, part::Int64, handle::Base.RefValue{Ptr{Raw.dc_fill}},
)
    return @gcsafe Raw.dc_cache_fill_begin(raw, index, part, handle)
end

function filled_by_hand(handle::Ptr{Raw.dc_fill}, sample)
    fill = Fill(handle)
    try
        if store!(fill, sample)
            fill.has_ended = true
            return checked(Raw.dc_cache_fill_commit(handle))
        end
        Raw.dc_cache_fill_abort(handle)
        return Raw.DC_FULL
    catch
        fill.has_ended || Raw.dc_cache_fill_abort(handle)
        rethrow()
    finally
        fill.has_ended = true
    end
end
