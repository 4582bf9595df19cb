# Loading: dc_cache_load calls back into Julia, on the thread and the stack of the task that called it.
#
# The thread is in a state in which the collector need not wait for it (@gcsafe) whenever it waits in C: the filler that
# it waits for may be another thread of this very process, and want to collect. So the trampoline leaves that state
# first, and enters it again last.
#
# A loader may switch tasks (it reads a file). Another task of the same thread that wants a sample then finds a thread
# that has a fill open, which the library does not let wait: it tries again after a pause, unless it is inside a loader
# itself.

const LOADER = Ref{Ptr{Cvoid}}(C_NULL)
const WAIT_PART_NS = Int64(250_000_000)
const LOAD_SECONDS = 60

"What the trampoline is handed: the loader, and what became of it."
mutable struct Request
    loader::Any  # called with the fill
    sample::Any  # the loader's own, for where nothing is stored
    has_run::Bool
    exception::Any
    backtrace::Any
end

Request(loader) = Request(loader, nothing, false, nothing, nothing)

function run_loader(handle::Ptr{Raw.dc_fill}, ::Int64, request)::Int32
    state = ccall(:jl_gc_unsafe_enter, Int8, ())
    answer = answer_of(handle, request)
    ccall(:jl_gc_unsafe_leave, Cvoid, (Int8,), state)
    return answer
end

# Nothing may be thrown through C.
@noinline function answer_of(handle::Ptr{Raw.dc_fill}, request::Request)::Int32
    fill = Fill(handle)
    try
        run!(request, fill)
        return has_allocated(fill) && !fill.is_private ? Raw.DC_LOADED : Int32(0)
    catch exception
        request.exception = exception
        request.backtrace = catch_backtrace()
        return Int32(0)
    end
end

function run!(request::Request, fill::Fill)
    loaders = task_local_storage()
    depth = get(loaders, :DDPCache_loaders, 0)::Int
    loaders[:DDPCache_loaders] = depth + 1
    try
        request.has_run = true
        request.sample = request.loader(fill)
    finally
        loaders[:DDPCache_loaders] = depth
        fill.has_ended = true
    end
    return nothing
end

is_in_loader() = get(task_local_storage(), :DDPCache_loaders, 0)::Int > 0

"The loader's own exception, with where it came from as its cause."
function rethrow_loaders(request)
    try
        throw(CapturedException(request.exception, request.backtrace))
    catch
        throw(request.exception)
    end
end

function deadline_after(wait_ns::Int64)
    now = Int64(time_ns())
    return wait_ns > typemax(Int64) - now ? typemax(Int64) : now + wait_ns
end

left_until(deadline::Int64) = max(Int64(0), deadline - Int64(time_ns()))

# What came back sooner than it was asked to could not wait: another task of this thread has a fill open.
pause(began, part::Int64) = Int64(time_ns() - began) < part ÷ 2 ? sleep(0.001) : yield()

"""
    get!(f, cache, i; timeout = 60)

Sample i, which f() makes where it is missing: of any number of callers in all processes of the machine exactly one runs
its f, and the others wait for it. What f throws is thrown to its caller, and the next who wants the sample runs his.

f() gives the sample's own, not stored, where the cache has no room, or another has been at it for longer than `timeout`
seconds, or within another loader of this task, which does not wait. An f that switches tasks may be run on any thread,
and goes on on the same.
"""
function Base.get!(f::Base.Callable, cache::Cache, i; timeout::Real = LOAD_SECONDS)
    return load(cache, i, timeout) do fill
        sample = f()
        store!(fill, sample)
        return sample
    end
end

"""
    load!(f, cache, i; timeout = 60)

As [`get!`](@ref), for loaders that decode straight into the memory of the cache: f(fill) asks for it by
[`allocate!`](@ref) and writes all of it. What f returns does not matter.

    load!(cache, i) do fill
        pixels = allocate!(fill, UInt8, 3, 640, 480)
        decode!(pixels, files[i])
    end
"""
function load!(f, cache::Cache, i; timeout::Real = LOAD_SECONDS)
    return load(cache, i, timeout) do fill
        f(fill)
        has_allocated(fill) ||
            throw(DDPCacheError(Raw.DC_ERROR_LOADER, "the loader of sample $i has returned without allocate!"))
        return fill.arrays
    end
end

@inline function load(loader, cache::Cache, i, timeout)
    pin = cache.keyed ? nothing : look_uncounted(cache, plain_index(cache, i))
    return pin === nothing ? load_missing(loader, cache, i, timeout) : sample_of(cache, pin)
end

# A hit is counted by the look; of a miss the load below counts its own.
@inline function look_uncounted(cache::Cache, index::Int64)
    present = using_handle_nothrow(handle -> Raw.dc_cache_contains(handle, index), cache)
    return present == Raw.DC_OK ? look(cache, index) : nothing
end

@noinline function load_missing(loader, cache::Cache, i, timeout)
    deadline = deadline_after(nanoseconds("timeout", timeout))
    index = index_to_fill(cache, i)
    index < 0 && return load_privately(loader)
    return using_handle(handle -> load_waiting(loader, cache, handle, index, deadline), cache)
end

function load_waiting(loader, cache::Cache, handle::Ptr{Raw.dc_cache}, index::Int64, deadline::Int64)
    request = Request(loader)
    while true
        pin, part = Pin(), min(WAIT_PART_NS, left_until(deadline))
        began = time_ns()
        status = on_this_thread(() -> load_once(handle, index, request, part, pin))
        status == Raw.DC_OK && return sample_of(cache, keep_until_collected(pin))
        request.exception === nothing || rethrow_loaders(request)
        status == Raw.DC_FULL && request.has_run && return request.sample
        another_task = status == Raw.DC_ERROR_RECURSION && !is_in_loader()
        another_task || status == Raw.DC_BUSY || status == Raw.DC_INTERRUPTED || checked(status)
        if left_until(deadline) == 0 || (status == Raw.DC_BUSY && is_in_loader())
            return load_privately(loader)
        end
        pause(began, part)
    end
end

# By itself, so that nothing is allocated or looked up between the two states.
@noinline function load_once(handle::Ptr{Raw.dc_cache}, index::Int64, request::Request, part::Int64, pin::Pin)
    loader = LOADER[]
    return @gcsafe Raw.dc_cache_load(handle, index, loader, request, part, pin)
end

"The sample of a loader that nothing is stored of."
function load_privately(loader)
    request = Request(loader)
    run!(request, Fill(Ptr{Raw.dc_fill}(C_NULL)))
    return request.sample
end
