# The bytes of keys are those of docs/format.md, so that programs in different languages mean the same sample.

key_bytes(key::AbstractString) = Vector{UInt8}(codeunits(String(key)))
key_bytes(key::AbstractVector{UInt8}) = UInt8[0xff; UInt8('b'); key]
key_bytes(key::Integer) = UInt8[0xff; UInt8('i'); codeunits(string(key))]
key_bytes(::Bool) = no_key(Bool)
function key_bytes(key::Tuple)
    bytes = UInt8[0xff, UInt8('t')]
    for part in key
        part_bytes = key_bytes(part)
        append!(bytes, reinterpret(UInt8, [UInt64(length(part_bytes))]))
        append!(bytes, part_bytes)
    end
    return bytes
end
key_bytes(key) = no_key(typeof(key))
no_key(T) = throw(ArgumentError("a $T is no key: keys are text, bytes, integers, and tuples of these"))

"""
    intern(cache, key) -> index

The index of a key in a keyed cache, which is given one if it has none; `nothing` where all indices are taken.
"""
function intern(cache::Cache, key)
    at = key_index(Raw.dc_cache_intern, cache, key)
    return at < 0 ? nothing : Int(at) + 1
end

"""
    lookup(cache, key) -> index

The index of a key in a keyed cache; `nothing` where nobody has given it one.
"""
function lookup(cache::Cache, key)
    at = key_index(Raw.dc_cache_lookup, cache, key)
    return at < 0 ? nothing : Int(at) + 1
end

"The 0-based index of a key; -1 where it has none."
function key_index(call, cache::Cache, key)
    cache.keyed || throw(DDPCacheError(
        Raw.DC_ERROR_UNSUPPORTED, "the cache \"$(cache.name)\" has no keys: open it with keyed = true",
    ))
    bytes, at = key_bytes(key), Ref{Int64}(-1)
    status = using_handle(handle -> call(handle, bytes, length(bytes), at), cache)
    return checked(status) == Raw.DC_OK ? at[] : Int64(-1)
end

"The 0-based index that a caller means; -1 for a key without one."
@inline function index_of(cache::Cache, i)
    cache.keyed && return key_index(Raw.dc_cache_lookup, cache, i)
    return plain_index(cache, i)
end

@inline function plain_index(cache::Cache, i::Integer)
    (1 <= i <= cache.length) || throw(BoundsError(cache, i))
    return Int64(i) - 1
end
plain_index(cache::Cache, ::Bool) = throw(ArgumentError("a Bool is no index of a cache"))
plain_index(cache::Cache, i) = throw(DDPCacheError(
    Raw.DC_ERROR_UNSUPPORTED, "$(repr(i)) is no index, and the cache \"$(cache.name)\" has no keys",
))

"The same for who will store a sample; a key is given an index."
function index_to_fill(cache::Cache, i)
    return cache.keyed ? key_index(Raw.dc_cache_intern, cache, i) : plain_index(cache, i)
end
