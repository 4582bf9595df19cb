"""
    DType(code, bits, lanes = 1)

An element's type as DLPack has it, and as it is stored: code 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool, ...;
bits of a lane; lanes. [`dtype`](@ref) tells it of a Julia type or of a stored array.
"""
struct DType
    code::UInt8
    bits::UInt8
    lanes::UInt16
end

DType(code, bits) = DType(code, bits, 1)

const INT, UINT, FLOAT, BFLOAT, COMPLEX, BOOL = 0x00, 0x01, 0x02, 0x04, 0x05, 0x06

"The types that Julia and DLPack both have. Those of small integers and floats come first, as they do in data sets."
const COMMON_TYPES = (
    UInt8, Float32, Int64, Float64, Bool, Int32, Float16, UInt16, Int16, Int8, UInt32, UInt64,
    ComplexF32, ComplexF64, Complex{Float16},
)

"""
    dtype(T), dtype(array)

The [`DType`](@ref) that elements of a Julia type are stored as, or that a stored array has. It tells a bfloat16, which
Julia sees as `UInt16`, from a `UInt16`.
"""
dtype(::Type{T}) where {T <: Union{Int8, Int16, Int32, Int64}} = DType(INT, 8 * sizeof(T))
dtype(::Type{T}) where {T <: Union{UInt8, UInt16, UInt32, UInt64}} = DType(UINT, 8 * sizeof(T))
dtype(::Type{T}) where {T <: Union{Float16, Float32, Float64}} = DType(FLOAT, 8 * sizeof(T))
dtype(::Type{Complex{T}}) where {T <: Union{Float16, Float32, Float64}} = DType(COMPLEX, 16 * sizeof(T))
dtype(::Type{Bool}) = DType(BOOL, 8)
function dtype(::Type{NTuple{N, T}}) where {N, T}
    one_lane = dtype(T)
    (N == 0 || one_lane.lanes != 1) && no_dtype(NTuple{N, T})
    return DType(one_lane.code, one_lane.bits, N)
end
dtype(::Type{T}) where {T} = no_dtype(T)
dtype(array::AbstractArray) = dtype(eltype(array))

no_dtype(T) = throw(ArgumentError(
    "a cache cannot hold elements of type $T: it takes Bool, integers and floats of up to 64 bits, complex floats, " *
    "and tuples of equal ones of these",
))

"The Julia type of the same size for a stored one: bit for bit, where Julia has no such type."
function julia_type(stored::DType)
    for T in COMMON_TYPES
        dtype(T) == stored && return T
    end
    if stored.bits % 8 == 0 && stored.lanes > 1
        return NTuple{Int(stored.lanes), julia_type(DType(stored.code, stored.bits))}
    end
    bytes = Int(stored.bits) * stored.lanes ÷ 8
    bytes == 1 && return UInt8
    bytes == 2 && return UInt16
    bytes == 4 && return UInt32
    bytes == 8 && return UInt64
    return NTuple{bytes, UInt8}
end

struct Typed{A <: AbstractArray}
    array::A
    dtype::DType
end

"""
    typed(array, dtype)

An array to be stored under a type that Julia does not have, such as `typed(bits, DType(4, 16))`, which is
[`bfloat16`](@ref)`(bits)`. The sizes of the elements must be the same.
"""
function typed(array::AbstractArray, stored::DType)
    bits = Int(stored.bits) * stored.lanes
    isbitstype(eltype(array)) && 8 * sizeof(eltype(array)) == bits ||
        throw(ArgumentError("elements of $(eltype(array)) cannot be stored as $stored, which has $bits bits"))
    return Typed(array, stored)
end

"""
    bfloat16(bits::AbstractArray{UInt16})

An array to be stored as bfloat16, whose bits Julia has as `UInt16`.
"""
bfloat16(bits::AbstractArray{UInt16}) = typed(bits, DType(BFLOAT, 16))
