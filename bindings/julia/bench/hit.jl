# What a hit costs through Julia: prints nanoseconds a hit as JSON, medians over rounds.
#
#     julia --project=bindings/julia bindings/julia/bench/hit.jl [HITS] [ROUNDS]
#
# Each row is of one process that finds every sample: `view` is cache[i], `read` copies the sample into an array that is
# there (dc_cache_read), `copy` makes an array of its own, `get` is get! with a loader that is not called, `with` is
# withsample, and `c_view` the two raw calls of C that a view consists of, made in a loop by compiled code.

using DDPCache
using DDPCache: Raw

const SAMPLES = 1000
const SHAPE = (3, 32, 32)

function c_view(handle, hits)
    view, array = Ref{Raw.dc_view}(), Ref{Raw.dc_array}()
    found = 0
    for at in 0:(hits - 1)
        found += Raw.dc_cache_view(handle, at % SAMPLES, view) == Raw.DC_OK
        found += Raw.dc_view_array(view, 0, array) == Raw.DC_OK
        Raw.dc_cache_view_release(view)
    end
    return found
end

function view_hits(cache, hits)
    found = 0
    for at in 0:(hits - 1)
        found += length(cache[at % SAMPLES + 1])
    end
    return found
end

function get_hits(cache, hits)
    found = 0
    for at in 0:(hits - 1)
        found += length(get!(() -> error("not there"), cache, at % SAMPLES + 1))
    end
    return found
end

function with_hits(cache, hits)
    found = 0
    for at in 0:(hits - 1)
        found += withsample(length, cache, at % SAMPLES + 1)
    end
    return found
end

function named_hits(cache, hits)
    found = 0
    for at in 0:(hits - 1)
        image, label = cache[at % SAMPLES + 1]
        found += length(image)
    end
    return found
end

function read_hits(cache, hits, buffer)
    for at in 0:(hits - 1)
        read!(cache, at % SAMPLES + 1, buffer)
    end
end

function copy_hits(cache, hits)
    found = 0
    for at in 0:(hits - 1)
        found += length(copy(cache[at % SAMPLES + 1]))
    end
    return found
end

function nanoseconds(f, hits, rounds)
    f(100)
    times = map(1:rounds) do _
        GC.gc()
        began = time_ns()
        f(hits)
        return (time_ns() - began) / hits
    end
    return sort(times)[(rounds + 1) ÷ 2]
end

function run(hits, rounds)
    name, bytes = "bench-julia-$(getpid())", prod(SHAPE)
    options = (length = SAMPLES, fingerprint = "bench", capacity = 64 << 20)
    rows = Cache(name; options...) do cache
        Cache("$name-named"; options...) do named
            for i in 1:SAMPLES
                cache[i] = rand(UInt8, SHAPE)
                named[i] = (image = rand(UInt8, SHAPE), label = i)
            end
            buffer = Array{UInt8}(undef, SHAPE)
            GC.@preserve cache [
                "c_view" => nanoseconds(n -> c_view(cache.handle, n), hits, rounds),
                "view" => nanoseconds(n -> view_hits(cache, n), hits, rounds),
                "with" => nanoseconds(n -> with_hits(cache, n), hits, rounds),
                "get" => nanoseconds(n -> get_hits(cache, n), hits, rounds),
                "read" => nanoseconds(n -> read_hits(cache, n, buffer), hits, rounds),
                "copy" => nanoseconds(n -> copy_hits(cache, n), hits, rounds),
                "named" => nanoseconds(n -> named_hits(named, n), hits, rounds),
            ]
        end
    end
    figures = join(("\"$row\": $(round(value; digits = 1))" for (row, value) in rows), ", ")
    println("{\"language\": \"julia\", \"version\": \"$VERSION\", \"sample_bytes\": $bytes, \"ns\": {$figures}}")
end

run(parse(Int, get(ARGS, 1, "200000")), parse(Int, get(ARGS, 2, "9")))
