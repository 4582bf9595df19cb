# A Pin keeps one sample of the cache in place. It is the C view itself, so that its finalizer is the C function: that
# may run late, in any order and inside a loader.
mutable struct Pin
    view::Raw.dc_view
    Pin() = new()
end

Base.unsafe_convert(::Type{Ptr{Raw.dc_view}}, pin::Pin) = Ptr{Raw.dc_view}(pointer_from_objref(pin))

keep_until_collected(pin::Pin) = (finalizer(Raw._dc_cache_view_release[], pin); pin)
isreleased(pin::Pin) = pin.view.owner == C_NULL

"""
    CacheArray{T, N} <: DenseArray{T, N}

An array of a sample in the cache, without a copy: the memory that all processes share. It is read only, and stays valid
for as long as it lives, also when the cache is closed or the sample is removed. `Array(a)` and `copy(a)` are the
program's own. [`release`](@ref) ends it at once; any later use is an error.

Its memory is mapped without the right to write, so that also foreign code that gets its pointer cannot change it.
"""
struct CacheArray{T, N} <: DenseArray{T, N}
    pin::Pin
    pointer::Ptr{T}
    size::NTuple{N, Int}
    dtype::DType
end

dtype(array::CacheArray) = array.dtype

"""
    FillArray{T, N} <: DenseArray{T, N}

The memory of a sample that is being filled, see [`allocate!`](@ref). It can be written to until its loader returns.
"""
struct FillArray{T, N, F} <: DenseArray{T, N}
    fill::F
    pointer::Ptr{T}
    size::NTuple{N, Int}
end

const Mapped{T, N} = Union{CacheArray{T, N}, FillArray{T, N}}

owner(array::CacheArray) = array.pin
owner(array::FillArray) = array.fill
isvalid_now(array::CacheArray) = !isreleased(array.pin)
isvalid_now(array::FillArray) = isopen(array.fill)

@noinline throw_invalid(::CacheArray) =
    throw(DDPCacheError(Raw.DC_ERROR_STATE, "this array of the cache was released"))
@noinline throw_invalid(::FillArray) =
    throw(DDPCacheError(Raw.DC_ERROR_STATE, "this memory was its loader's, which has returned"))

# Whatever uses an array as a whole asks for its size first, and so does each access that checks its bounds.
@inline function Base.size(array::Mapped)
    isvalid_now(array) || throw_invalid(array)
    return array.size
end

Base.IndexStyle(::Type{<:Mapped}) = IndexLinear()
Base.elsize(::Type{<:Mapped{T}}) where {T} = sizeof(T)
Base.strides(array::Mapped) = Base.size_to_strides(1, size(array)...)
Base.dataids(array::Mapped) = (UInt(array.pointer),)

function Base.unsafe_convert(::Type{Ptr{T}}, array::Mapped{T}) where {T}
    isvalid_now(array) || throw_invalid(array)
    return array.pointer
end

# A byte of another language need not be 0 or 1, as Julia's Bool must.
@inline loaded(pointer::Ptr, at) = unsafe_load(pointer, at)
@inline loaded(pointer::Ptr{Bool}, at) = unsafe_load(Ptr{UInt8}(pointer), at) != 0x00

@inline function Base.getindex(array::Mapped, at::Int)
    @boundscheck checkbounds(array, at)
    held = owner(array)
    return GC.@preserve held loaded(array.pointer, at)
end

Base.setindex!(::CacheArray, value, at::Int) = throw(ReadOnlyMemoryError())

@inline function Base.setindex!(array::FillArray{T}, value, at::Int) where {T}
    @boundscheck checkbounds(array, at)
    unsafe_store!(array.pointer, convert(T, value), at)
    return array
end

function Base.copyto!(to::Array{T}, from::Mapped{T}) where {T}
    length(to) < length(from) && throw(BoundsError(to, 1:length(from)))
    T === Bool && return Base.copyto_unaliased!(IndexLinear(), to, IndexLinear(), from)
    GC.@preserve to from unsafe_copyto!(pointer(to), pointer(from), length(from))
    return to
end

function Base.copyto!(to::FillArray{T}, from::Union{Array{T}, CacheArray{T}}) where {T}
    length(to) < length(from) && throw(BoundsError(to, 1:length(from)))
    GC.@preserve from unsafe_copyto!(pointer(to), pointer(from), length(from))
    return to
end

Base.Array(array::Mapped{T, N}) where {T, N} = copyto!(Array{T, N}(undef, size(array)), array)
Base.Array{T, N}(array::Mapped{T, N}) where {T, N} = Array(array)
Base.Array{T}(array::Mapped{T, N}) where {T, N} = Array(array)
Base.copy(array::Mapped) = Array(array)
Base.collect(array::Mapped) = Array(array)

# Never changed, it needs no second one.
Base.deepcopy_internal(array::CacheArray, ::IdDict) = array
Base.deepcopy_internal(::FillArray, ::IdDict) = throw(ArgumentError("memory of a fill is not copied: Array is"))
# What leaves the process is a copy: a pointer and a pin mean nothing elsewhere.
Serialization.serialize(stream::AbstractSerializer, array::Mapped) = Serialization.serialize(stream, Array(array))

function Base.summary(io::IO, array::Mapped)
    isvalid_now(array) && return invoke(summary, Tuple{IO, AbstractArray}, io, array)
    print(io, typeof(array), array isa CacheArray ? ", released" : ", returned")
end
function Base.show(io::IO, kind::MIME"text/plain", array::Mapped)
    isvalid_now(array) ? invoke(show, Tuple{IO, MIME"text/plain", AbstractArray}, io, kind, array) : summary(io, array)
end
function Base.show(io::IO, array::Mapped)
    isvalid_now(array) ? invoke(show, Tuple{IO, AbstractArray}, io, array) : summary(io, array)
end

"""
    rowmajor(array)

The array with C's order of dimensions, without a copy: `rowmajor(a)[y, x, c]` is `a[c, x, y]`.
"""
rowmajor(array::AbstractArray{T, N}) where {T, N} = PermutedDimsArray(array, ntuple(d -> N + 1 - d, N))

"""
    release(sample)

Ends the look at a sample at once, instead of when it is collected: an array from the cache, or a tuple or named tuple
of them. All arrays of the sample end. What is no array of the cache is left alone.
"""
release(array::CacheArray) = (pin = array.pin; Raw.dc_cache_view_release(pin); nothing)
release(sample::Union{Tuple, NamedTuple}) = foreach(release, sample)
release(::Any) = nothing
