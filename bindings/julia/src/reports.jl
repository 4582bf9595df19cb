"""
    info(cache)

What a cache is, and how this handle came to it, as a named tuple: name, uuid, fingerprint, length, capacity_bytes,
clients_attached, created, adopted, ... as `dc_cache_info` in report.h has them.
"""
function info(cache::Cache)
    found = sized(Raw.dc_cache_info)
    checked(using_handle(handle -> Raw.dc_cache_info_get(handle, found), cache))
    return record(found)
end

"""
    stats(cache; scope = :cache)

Counts of all processes since the cache was made, or with `scope = :client` of this process since it opened it, as a
named tuple: hits, misses, fills, waits, timeouts, bypasses, resident, ... as `dc_cache_stats` in report.h has them;
and `hit_rate`, the hits of all look-ups.
"""
function stats(cache::Cache; scope::Symbol = :cache)
    scope in (:cache, :client) || throw(ArgumentError("scope is :cache or :client, not $(repr(scope))"))
    of_whom = scope === :cache ? Raw.DC_STATS_CACHE : Raw.DC_STATS_CLIENT
    found = sized(Raw.dc_cache_stats)
    checked(using_handle(handle -> Raw.dc_cache_stats_get(handle, of_whom, found), cache))
    counts = record(found)
    return merge(counts, (hit_rate = counts.hits / max(1, counts.hits + counts.misses),))
end

"""
    check(cache)

Proves every invariant of the cache, while others use it, in time proportional to its entries and memory, and gives the
counts as a named tuple. A [`DDPCacheError`](@ref) with the status `Raw.DC_ERROR_DAMAGED` says what is broken and where.
"""
function check(cache::Cache)
    found, reasons = sized(Raw.dc_cache_report), no_error()
    checked(using_handle(handle -> check_once(handle, found, reasons), cache), reasons)
    return record(found)
end

@noinline function check_once(
    handle::Ptr{Raw.dc_cache}, found::Base.RefValue{Raw.dc_cache_report}, reasons::Base.RefValue{Raw.dc_error},
)
    return @gcsafe Raw.dc_cache_check(handle, found, reasons)
end
