"Looks at a sample by its 0-based index: a pin, or nothing for a miss."
@inline function look(cache::Cache, index::Int64)
    index < 0 && return nothing
    pin = Pin()
    status = using_handle_nothrow(handle -> Raw.dc_cache_view(handle, index, pin), cache)
    status == Raw.DC_OK && return keep_until_collected(pin)
    checked(status)
    return nothing
end

"One array of a pinned sample."
@inline function array_of(pin::Pin, memory::Ptr{UInt8})
    stored = DType(
        field(memory, Raw.dc_array, :dtype_code),
        field(memory, Raw.dc_array, :dtype_bits),
        field(memory, Raw.dc_array, :dtype_lanes),
    )
    return mapped_array(stored, pin, memory)
end

@inline describe_array!(found::Ref{Raw.dc_array}, pin::Pin, number) =
    checked(Raw.dc_view_array(pin, number, found))

@inline is_named(memory::Ptr{UInt8}) = unsafe_load(memory + offset_of(Raw.dc_array, :name)) != 0x00
# Types that data sets mostly have are compared with one by one; any other is asked for.
@eval function mapped_array(stored::DType, pin::Pin, memory::Ptr{UInt8})
    $((:(stored == $(dtype(T)) && return mapped_array($T, stored, pin, memory)) for T in COMMON_TYPES)...)
    return mapped_array(julia_type(stored), stored, pin, memory)
end

@noinline function mapped_array(::Type{T}, stored::DType, pin::Pin, memory::Ptr{UInt8}) where {T}
    data, N = Ptr{T}(field(memory, Raw.dc_array, :data)), Int(field(memory, Raw.dc_array, :dimensions))
    shape = Ptr{Int64}(memory + offset_of(Raw.dc_array, :shape))
    at(d) = Int(unsafe_load(shape, d))
    N == 3 && return CacheArray{T, 3}(pin, data, (at(3), at(2), at(1)), stored)
    N == 2 && return CacheArray{T, 2}(pin, data, (at(2), at(1)), stored)
    N == 1 && return CacheArray{T, 1}(pin, data, (at(1),), stored)
    N == 0 && return CacheArray{T, 0}(pin, data, (), stored)
    return CacheArray{T, N}(pin, data, Tuple(at(d) for d in N:-1:1), stored)
end

"A sample as it is nested: an array by itself, a named tuple where all arrays have names, or else a tuple."
function sample_of(cache::Cache, pin::Pin)
    found = Ref{Raw.dc_array}()
    describe_array!(found, pin, 0)
    GC.@preserve found begin
        memory = address(found)
        pin.view.array_count == 1 && !is_named(memory) && return array_of(pin, memory)
    end
    return nested_sample(cache, pin, Int(pin.view.array_count))
end

@noinline function nested_sample(cache::Cache, pin::Pin, count::Int)
    arrays, found = Vector{Any}(undef, count), Ref{Raw.dc_array}()
    last = cache.nesting
    is_as_last = length(last.names) == count
    GC.@preserve found for number in 1:count
        describe_array!(found, pin, number - 1)
        arrays[number] = array_of(pin, address(found))
        is_as_last = is_as_last && has_name(address(found), last.names[number])
        is_as_last = is_as_last && typeof(arrays[number]) === last.types[number]
    end
    is_as_last || (last = cache.nesting = nesting_of(pin, arrays))
    return built(last.type, arrays)
end

function has_name(memory::Ptr{UInt8}, name::String)
    # Both end in NUL.
    return ccall(:strcmp, Cint, (Ptr{UInt8}, Ptr{UInt8}), memory + offset_of(Raw.dc_array, :name), name) == 0
end

function nesting_of(pin::Pin, arrays::Vector{Any})
    names, found = String[], Ref{Raw.dc_array}()
    for number in eachindex(arrays)
        describe_array!(found, pin, number - 1)
        push!(names, GC.@preserve found text_field(address(found), Raw.dc_array, :name))
    end
    types = map(typeof, arrays)
    # Python's tuples have numbers for names.
    is_tuple = any(isempty, names) || !allunique(names) || names == string.(0:(length(names) - 1))
    tuple_type = Tuple{types...}
    return Nesting(names, types, is_tuple ? tuple_type : NamedTuple{Tuple(map(Symbol, names)), tuple_type})
end

@generated function built(::Type{T}, arrays::Vector{Any}) where {T <: Union{Tuple, NamedTuple}}
    parts = [:(arrays[$at]::$(fieldtype(T, at))) for at in 1:fieldcount(T)]
    return T <: Tuple ? :(($(parts...),)) : :(T(($(parts...),)))
end

@noinline throw_missing(key) = throw(KeyError(key))

"""
    cache[i]

Sample i, as read-only arrays without a copy. A `KeyError` where it is not there.
"""
Base.@propagate_inbounds function Base.getindex(cache::Cache, i)
    pin = look(cache, index_of(cache, i))
    pin === nothing && throw_missing(i)
    return sample_of(cache, pin)
end

"""
    cache[indices]

The samples of many indices, as a vector. See [`gather`](@ref) for one array of them all.
"""
function Base.getindex(cache::Cache, indices::AbstractVector)
    # In a keyed cache bytes are one key.
    cache.keyed && indices isa AbstractVector{UInt8} && return invoke(getindex, Tuple{Cache, Any}, cache, indices)
    return [cache[i] for i in indices]
end
function Base.getindex(cache::Cache, mask::AbstractVector{Bool})
    length(mask) == length(cache) || throw(BoundsError(cache, mask))
    return cache[findall(mask)]
end
Base.getindex(cache::Cache, ::Colon) = cache[eachindex(cache)]

Base.get(cache::Cache, i, default) = get(() -> default, cache, i)
function Base.get(f::Base.Callable, cache::Cache, i)
    pin = look(cache, index_of(cache, i))
    return pin === nothing ? f() : sample_of(cache, pin)
end

function Base.haskey(cache::Cache, i)
    cache.keyed || (i isa Integer && !(i isa Bool) && 1 <= i <= cache.length) || return false
    index = index_of(cache, i)
    index < 0 && return false
    return checked(using_handle(handle -> Raw.dc_cache_contains(handle, index), cache)) == Raw.DC_OK
end

"""
    withsample(f, cache, i)

Calls f(sample i), for a do-block, and ends the look at it at once, so that its memory can be used again in a droppable
cache. Arrays of the sample are an error after that. A `KeyError` where the sample is not there.
"""
function withsample(f, cache::Cache, i)
    pin = look(cache, index_of(cache, i))
    pin === nothing && throw_missing(i)
    try
        return f(sample_of(cache, pin))
    finally
        Raw.dc_cache_view_release(pin)
    end
end

"""
    read!(cache, i, array)

Copies sample i, of one array, into an array of the program's that has as many bytes. A `KeyError` where the sample is
not there.
"""
function Base.read!(cache::Cache, i, array::Array{T}) where {T}
    isbitstype(T) || no_dtype(T)
    index, bytes, room = index_of(cache, i), Ref{UInt64}(0), sizeof(array)
    status = index < 0 ? Raw.DC_MISS : GC.@preserve array using_handle_nothrow(cache) do handle
        Raw.dc_cache_read(handle, index, 0, Ptr{UInt8}(pointer(array)), room, bytes)
    end
    status == Raw.DC_OK && bytes[] == room && return array
    status == Raw.DC_MISS && throw_missing(i)
    status == Raw.DC_OK || status == Raw.DC_ERROR_BUFFER || checked(status)
    throw(DimensionMismatch("sample $i has $(bytes[]) bytes, and the array $room"))
end

"""
    structure(cache, i) -> String

How the language that stored sample i nests its arrays, as JSON; `nothing` where it did not say. A `KeyError` where the
sample is not there.
"""
function structure(cache::Cache, i)
    index = index_of(cache, i)
    buffer, bytes = Vector{UInt8}(undef, Raw.DC_STRUCTURE_BYTES_MAX), Ref{UInt64}(0)
    status = index < 0 ? Raw.DC_MISS :
        using_handle(handle -> Raw.dc_cache_structure(handle, index, buffer, length(buffer), bytes), cache)
    checked(status) == Raw.DC_OK || throw_missing(i)
    return bytes[] == 0 ? nothing : String(buffer[1:bytes[]])
end

"""
    describe(cache, i)

What the arrays of sample i are: a vector of named tuples (name, dtype, size), sizes in Julia's order. A `KeyError`
where the sample is not there.
"""
function describe(cache::Cache, i)
    pin = look(cache, index_of(cache, i))
    pin === nothing && throw_missing(i)
    found = Ref{Raw.dc_array}()
    described = map(1:Int(pin.view.array_count)) do number
        describe_array!(found, pin, number - 1)
        GC.@preserve found begin
            name = text_field(address(found), Raw.dc_array, :name)
            array = array_of(pin, address(found))
            (name = name, dtype = dtype(array), size = size(array))
        end
    end
    Raw.dc_cache_view_release(pin)
    return described
end

# ---- Removing. ----

"""
    remove!(cache, i), remove!(cache, indices) -> Int

Removes those of some samples that are there, from a droppable cache, and tells how many. They are gone at once for
everybody; their memory is used again when no array over it is left, in any process.
"""
function remove!(cache::Cache, indices::AbstractVector)
    cache.keyed && indices isa AbstractVector{UInt8} && return remove_indices(cache, [index_of(cache, indices)])
    return remove_indices(cache, Int64[index_of(cache, i) for i in indices])
end
remove!(cache::Cache, i) = remove_indices(cache, [index_of(cache, i)])

function remove_indices(cache::Cache, indices::Vector{Int64})
    filter!(index -> index >= 0, indices)
    removed = Ref{Int64}(0)
    checked_removal(
        cache, using_handle(handle -> Raw.dc_cache_remove_batch(handle, indices, length(indices), removed), cache),
    )
    return Int(removed[])
end

function checked_removal(cache::Cache, status::Int32)
    status == Raw.DC_ERROR_UNSUPPORTED && throw(DDPCacheError(
        status, "nothing can be removed from the cache \"$(cache.name)\": it " *
        (cache.read_only ? "was attached read only" : "was not made droppable"),
    ))
    return checked(status)
end

Base.delete!(cache::Cache, i) = (remove!(cache, i); cache)

"""
    empty!(cache)

Removes all samples from a droppable cache.
"""
function Base.empty!(cache::Cache)
    checked_removal(cache, using_handle(handle -> Raw.dc_cache_clear(handle, C_NULL), cache))
    return cache
end
