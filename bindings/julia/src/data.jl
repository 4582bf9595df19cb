"""
    CachedData(data, cache; get = getindex, key = identity, timeout = 60)

A data set whose observations are decoded once per machine: `cached[i]` is sample i of the cache, which is made by
`get(data, i)` if no process has made it yet. It has `length` and `getindex`, also of a vector of indices, and so is a
data container for MLUtils and a Flux DataLoader, by their fall-backs.

`get` is for data that are not indexed, such as MLUtils' `getobs`. In a keyed cache, which several data sets can share,
`key(i)` is the key of observation i: `key = i -> ("train", i)`.

    train = CachedData(ImageFolder("train"), cache)
    train[7]                  # read-only arrays, or where the cache is full what `get` gave
    train[[3, 1, 2]]          # a vector of observations
"""
struct CachedData{D, G, K}
    data::D
    cache::Cache
    get::G
    key::K
    timeout::Float64
end

function CachedData(data, cache::Cache; get = getindex, key = identity, timeout::Real = LOAD_SECONDS)
    cache.keyed || length(data) <= length(cache) || throw(ArgumentError(
        "the data have $(length(data)) observations, more than the $(length(cache)) entries of the cache",
    ))
    cache.keyed && key === identity && throw(ArgumentError(
        "a keyed cache is shared by data sets: give key, such as key = i -> (\"train\", i)",
    ))
    return CachedData(data, cache, get, key, Float64(timeout))
end

Base.length(cached::CachedData) = length(cached.data)
Base.firstindex(cached::CachedData) = 1
Base.lastindex(cached::CachedData) = length(cached)
Base.eachindex(cached::CachedData) = Base.OneTo(length(cached))

function Base.getindex(cached::CachedData, i::Integer)
    1 <= i <= length(cached) || throw(BoundsError(cached, i))
    return get!(() -> cached.get(cached.data, i), cached.cache, cached.key(i); timeout = cached.timeout)
end
Base.getindex(cached::CachedData, indices::AbstractVector) = [cached[i] for i in indices]
Base.getindex(cached::CachedData, ::Colon) = cached[eachindex(cached)]

Base.iterate(cached::CachedData, i = 1) = i > length(cached) ? nothing : (cached[i], i + 1)

function Base.show(io::IO, cached::CachedData)
    data = nameof(typeof(cached.data))
    print(io, "CachedData(", length(cached), " observations of a ", data, ", ", cached.cache, ")")
end
