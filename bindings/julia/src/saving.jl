const PROGRESS = Ref{Ptr{Cvoid}}(C_NULL)

mutable struct Watch
    progress::Any  # called with the bytes done and the bytes of the whole; false stops
    exception::Any
    backtrace::Any
end

function run_progress(done::UInt64, total::UInt64, watch)::Int32
    state = ccall(:jl_gc_unsafe_enter, Int8, ())
    answer = progress_answer(done, total, watch)
    ccall(:jl_gc_unsafe_leave, Cvoid, (Int8,), state)
    return answer
end

@noinline function progress_answer(done::UInt64, total::UInt64, watch::Watch)::Int32
    try
        return watch.progress === nothing || watch.progress(Int(done), Int(total)) !== false ? Int32(0) : Int32(1)
    catch exception
        watch.exception = exception
        watch.backtrace = catch_backtrace()
        return Int32(1)
    end
end

"""
    save(cache, path; progress = nothing) -> Int

Writes every sample that is in the cache to a file, and tells how many. The file is whole or not there.
`progress(done, total)` hears how far it has come, in bytes, and stops it by returning `false`; what it throws is thrown
on.
"""
function save(cache::Cache, path::AbstractString; progress = nothing)
    watch, saved, reasons = Watch(progress, nothing, nothing), Ref{Int64}(0), no_error()
    status = using_handle(cache) do handle
        on_this_thread(() -> save_once(handle, String(path), watch, saved, reasons))
    end
    check_watched(status, watch, reasons, "saving $path")
    return Int(saved[])
end

@noinline function save_once(
    handle::Ptr{Raw.dc_cache}, path::String, watch::Watch, saved::Base.RefValue{Int64},
    reasons::Base.RefValue{Raw.dc_error},
)
    progress = PROGRESS[]
    return @gcsafe Raw.dc_cache_save(handle, path, progress, watch, saved, reasons)
end

"""
    restore(path, name; fingerprint = nothing, progress = nothing, ...) -> Cache

Opens a cache with the samples of a saved file: creates it, or attaches to the one that is there. Of all processes of a
machine one reads the file. Options are those of [`Cache`](@ref); what is not given is what was saved.
"""
function restore(
    path::AbstractString,
    name::AbstractString;
    fingerprint::Union{Nothing, AbstractString} = nothing,
    directory::Union{Nothing, AbstractString} = nothing,
    progress = nothing,
    options...,
)
    wanted = isempty(options) ? nothing : cache_options(; length = 0, options...)
    watch, handle, reasons = Watch(progress, nothing, nothing), Ref{Ptr{Raw.dc_cache}}(C_NULL), no_error()
    texts = map(part -> part === nothing ? nothing : String(part), (path, name, directory, fingerprint))
    status = on_this_thread(() -> restore_once(texts, wanted, watch, handle, reasons))
    check_watched(status, watch, reasons, "restoring $path")
    return opened(handle[], directory)
end

function restore_once(texts, wanted, watch, handle, reasons)
    pointers = map(part -> part === nothing ? Cstring(C_NULL) : Base.unsafe_convert(Cstring, part), texts)
    options = wanted === nothing ? Ptr{Raw.dc_cache_options}(C_NULL) :
        Base.unsafe_convert(Ptr{Raw.dc_cache_options}, wanted)
    return GC.@preserve texts wanted restore_safely(pointers, options, watch, handle, reasons)
end

@noinline function restore_safely(
    texts::NTuple{4, Cstring}, options::Ptr{Raw.dc_cache_options}, watch::Watch,
    handle::Base.RefValue{Ptr{Raw.dc_cache}}, reasons::Base.RefValue{Raw.dc_error},
)
    path, name, directory, fingerprint = texts
    progress = PROGRESS[]
    return @gcsafe Raw.dc_cache_restore(
        path, name, directory, fingerprint, options, progress, watch, handle, reasons,
    )
end

function check_watched(status, watch, reasons, what)
    watch.exception === nothing || rethrow_loaders(watch)
    status == Raw.DC_INTERRUPTED && throw(DDPCacheError(status, "$what was stopped by its progress function"))
    return checked(status, reasons)
end

"""
    saved_info(path)

What is in a saved file, by its header, as a named tuple: see `dc_saved_info` in saving.h.
"""
function saved_info(path::AbstractString)
    found, reasons = sized(Raw.dc_saved_info), no_error()
    checked(Raw.dc_saved_info_get(path, found, reasons), reasons)
    return record(found)
end
