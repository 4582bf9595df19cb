"""
    DDPCacheError(status, message)

What the library refused, with the actual values in `message`. `status` is one of the numbers of `DDPCache.Raw`, such
as `Raw.DC_ERROR_MISMATCH`. An index outside a cache is a `BoundsError`, and a sample that is not there a `KeyError`.
"""
struct DDPCacheError <: Exception
    status::Int32
    message::String
end

DDPCacheError(status::Integer) = DDPCacheError(status, unsafe_string(Raw.dc_strerror(status)))

const STATUS_NAMES = Dict{Int32, Symbol}(
    getfield(Raw, name) => name for name in names(Raw; all = true) if
    startswith(string(name), "DC_ERROR_") ||
    name in (:DC_MISS, :DC_BUSY, :DC_FULL, :DC_END, :DC_INTERRUPTED, :DC_PRESENT)
)

function Base.showerror(io::IO, error::DDPCacheError)
    name = get(STATUS_NAMES, error.status, "status")
    print(io, "DDPCacheError: ", error.message, " (", name, ", ", error.status, ")")
end

"Throws for an error; gives back what was expected to happen."
@inline checked(status::Int32) = status < 0 ? throw(DDPCacheError(status)) : status

"The same for a call that has also told its reasons."
function checked(status::Int32, reasons::Base.RefValue{Raw.dc_error})
    status < 0 || return status
    message = GC.@preserve reasons text_field(address(reasons), Raw.dc_error, :message)
    throw(isempty(message) ? DDPCacheError(status) : DDPCacheError(status, message))
end

"Room for the reasons of an error."
no_error() = zeroed(Raw.dc_error)

"Nanoseconds of a time in seconds, which may be Inf."
function nanoseconds(what, seconds::Real)
    seconds >= 0 || throw(ArgumentError("$what is a number of seconds from 0 on, not $seconds"))
    return seconds >= 9e9 ? typemax(Int64) : round(Int64, seconds * 1e9)
end

"""
    @gcsafe expression

Lets the garbage collector of other threads go on while this one waits in C. The expression is one raw call, and what
it calls back must begin with `jl_gc_unsafe_enter`.
"""
macro gcsafe(expression)
    return quote
        local state = ccall(:jl_gc_safe_enter, Int8, ())
        local result = $(esc(expression))
        ccall(:jl_gc_safe_leave, Cvoid, (Int8,), state)
        result
    end
end
