using Distributed
using Serialization

"Runs f with two workers of this machine."
function with_workers(f)
    workers_ = addprocs(2; exeflags = ["--project=$PROJECT", "--startup-file=no"])
    try
        @everywhere workers_ @eval using DDPCache
        return f(workers_)
    finally
        rmprocs(workers_)
    end
end

@testset "workers share a cache: each sample is decoded once" begin
    with_workers() do workers_
        with_cache(200) do cache
            name = cache.name
            decoded = fetch.([
                @spawnat worker begin
                    Cache(name) do own
                        count = 0
                        for i in 1:length(own)
                            sample = get!(own, i) do
                                count += 1
                                return (fill(Int32(i), 20), i)
                            end
                            sample[1] == fill(i, 20) && sample[2][] == i || error("sample $i is $sample")
                        end
                        return count
                    end
                end for worker in workers_
            ])
            @test sum(decoded) == 200
            @test all(cache[i][2][] == i for i in 1:200)
            # A cache that is sent is attached to there, and a sample comes back as a copy.
            @test pmap(i -> cache[i][2][], WorkerPool(workers_), 1:50) == 1:50
            @test remotecall_fetch(i -> cache[i], workers_[1], 3) == (fill(3, 20), fill(3))
            @test info(cache).clients_attached >= 3
        end
    end
end

@testset "a cache that was made anew is not the one that was sent" begin
    with_workers() do workers_
        name = unique_name()
        options = (length = 3, fingerprint = "test", capacity = 1 << 20)
        old = Cache(name; options...)
        sent = IOBuffer()
        serialize(sent, old)
        @test deserialize(seekstart(sent)).uuid == old.uuid
        close(old)
        GC.gc()
        wait_until(() -> (GC.gc(); !(name in cache_names())))
        Cache(name; options...) do new
            other = thrown(() -> deserialize(seekstart(sent)))
            @test other.status == Raw.DC_ERROR_MISMATCH
        end
    end
end

"Starts a Julia that fills and says so; gives its process and a function that kills it."
function start_filler(name, loader)
    ready = Pipe()
    process = run(pipeline(julia_command("""
        cache = Cache("$name")
        for i in 1:3
            cache[i] = fill(i, 100)
        end
        $loader
    """), stdout = ready, stderr = stderr), wait = false)
    close(ready.in)
    line = readline(ready)
    line == "filling" || error("the filler said $(repr(line))")
    return process
end

@testset "kill -9 of a Julia in the middle of a fill costs that decode alone" begin
    for loader in (
        "get!(() -> (println(\"filling\"); flush(stdout); sleep(100)), cache, 4)",
        "load!(fill -> (memory = allocate!(fill, Int, 100); memory[1:50] .= 1; println(\"filling\"); flush(stdout); " *
        "sleep(100)), cache, 4)",
    )
        with_cache() do cache
            process = start_filler(cache.name, loader)
            @test get!(() -> [-1], cache, 4; timeout = 0) == [-1]  # it is being filled
            @test !haskey(cache, 4)
            kill(process, Base.SIGKILL)
            wait(process)
            @test get!(() -> fill(4, 100), cache, 4) == fill(4, 100)
            @test [cache[i] for i in 1:4] == [fill(i, 100) for i in 1:4]
            @test check(cache).entries_orphaned == 0
            @test stats(cache).takeovers == 1
        end
    end
end

@testset "a waiter takes over from a Julia that is killed" begin
    with_cache() do cache
        process = start_filler(cache.name, "get!(() -> (println(\"filling\"); flush(stdout); sleep(100)), cache, 4)")
        waiter = @async get!(() -> fill(-4, 100), cache, 4; timeout = 60)
        sleep(0.3)
        @test !istaskdone(waiter)
        kill(process, Base.SIGKILL)
        wait(process)
        @test fetch(waiter) == fill(-4, 100) == cache[4]
    end
end

function look_around(cache, held, more)
    right = all(i -> cache[i] == [i], 1:10) && held == [1] && put!(cache, more, [more]) && cache[more] == [more]
    release(held)
    return right
end

@testset "a forked child uses its parent's cache and leaves it alone" begin
    with_cache(20) do cache
        for i in 1:10
            cache[i] = [i]
        end
        # Julia 1.5 cannot compile in a forked child, so all that it does has been compiled before.
        @test look_around(cache, cache[1], 11)
        Cache(close, cache.name)
        held = cache[1]
        pid = ccall(:fork, Cint, ())
        if pid == 0
            right = look_around(cache, held, 12)
            close(cache)
            ccall(:_exit, Cvoid, (Cint,), right ? 7 : 1)
        end
        status = Ref{Cint}(0)
        @test ccall(:waitpid, Cint, (Cint, Ref{Cint}, Cint), pid, status, 0) == pid
        @test status[] == 7 << 8
        # What the child released was its parent's, and so it is still held.
        @test held == [1] && cache[12] == [12] && isopen(cache)
    end
end

@testset "what Julia stored, C's tool proves sound while both run" begin
    tool = joinpath(dirname(dirname(DDPCache.Raw.library_path())), "bin", "ddpcache")
    if isfile(tool)
        with_cache() do cache
            cache[1] = (image = rand(UInt8, 3, 4), label = 7)
            @test success(`$tool check $(cache.name)`)
        end
    end
end
