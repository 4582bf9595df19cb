struct Unusual <: Exception
    value::Int
end

throw_unusual(value) = throw(Unusual(value))

@testset "get! runs its function once" begin
    with_cache() do cache
        calls = 0
        for _ in 1:3
            @test get!(cache, 4) do
                calls += 1
                [calls]
            end == [1]
        end
        @test calls == 1
    end
end

@testset "load! decodes into the cache's memory" begin
    with_cache() do cache
        sample = load!(cache, 1) do fill
            image, label = allocate!(fill, (image = (UInt8, (2, 3)), label = (Int64, ())))
            @test image isa FillArray{UInt8, 2} && size(label) == ()
            image .= 7
            label[] = 9
        end
        @test sample isa NamedTuple && sample.image == fill(7, 2, 3) && sample.label[] == 9
        pair = load!(cache, 2) do fill
            parts = allocate!(fill, (Int32, (2,)), (Int8, ()))
            parts[1] .= 1
            parts[2] .= 2
        end
        @test pair[1] == [1, 1] && pair[2][] == 2
        bf = load!(fill -> allocate!(fill, DType(4, 16), 2) .= 0x3f80, cache, 3)
        @test dtype(bf) == DType(4, 16) && bf == [0x3f80, 0x3f80]
    end
end

@testset "what a loader throws is thrown to its caller, and the sample can be loaded again" begin
    with_cache() do cache
        for load in (get!, load!)
            loader = load === get! ? (() -> throw_unusual(3)) : (_ -> throw_unusual(3))
            @test thrown(() -> load(loader, cache, 1)) === Unusual(3)
            @test !haskey(cache, 1) && stats(cache).open_fills == 0
        end
        # After it has its memory, too.
        @test thrown(() -> load!(fill -> (allocate!(fill, Int, 3); throw_unusual(4)), cache, 1)) === Unusual(4)
        @test get!(() -> [5], cache, 1) == [5]

        # Where it came from stands in the trace.
        trace = try
            get!(() -> throw_unusual(3), cache, 2)
        catch
            sprint(Base.display_error, Base.catch_stack())
        end
        @test occursin("throw_unusual", trace)
    end
end

@testset "loaders that do not do what they must" begin
    with_cache() do cache
        @test status_of(() -> load!(fill -> 1, cache, 1)) == Raw.DC_ERROR_LOADER
        @test status_of(() -> load!(fill -> (allocate!(fill, Int, 1); allocate!(fill, Int, 1)), cache, 1)) ==
            Raw.DC_ERROR_STATE
        @test_throws ArgumentError load!(fill -> allocate!(fill, String, 1), cache, 1)
        @test status_of(() -> get!(() -> get!(() -> [1], cache, 1), cache, 1)) == Raw.DC_ERROR_RECURSION
        escaped = Ref{Any}()
        load!(fill -> (escaped[] = (fill, allocate!(fill, Int, 1)); escaped[][2] .= 1), cache, 1)
        fill_, memory = escaped[]
        @test status_of(() -> memory[1] = 2) == Raw.DC_ERROR_STATE
        @test status_of(() -> pointer(memory)) == Raw.DC_ERROR_STATE
        @test status_of(() -> allocate!(fill_, Int, 1)) == Raw.DC_ERROR_STATE
        @test occursin("returned", repr(memory))
        @test cache[1] == [1]
        @test status_of(() -> get!(() -> (close(cache); [1]), cache, 2)) == Raw.DC_ERROR_STATE
        @test isopen(cache)
    end
end

@testset "a loader may load other samples" begin
    with_cache(20) do cache
        chain(i) = get!(() -> i == 20 ? [1] : chain(i + 1) .+ 1, cache, i)
        @test chain(1) == [20]
        @test all(residency(cache))
    end
end

@testset "tasks of one thread share a cache" begin
    with_cache(30) do cache
        # Twelve tasks want the same samples; the loader switches tasks, so that others come while it is under way.
        calls = zeros(Int, 30)
        @sync for _ in 1:12
            @async for i in 1:30
                sample = get!(cache, i) do
                    calls[i] += 1
                    sleep(0.002 * (i % 3))
                    return [i]
                end
                sample == [i] || error("wrong sample $i: $sample")
            end
        end
        @test calls == ones(30)
    end
end

@testset "a wait ends at its deadline with the caller's own" begin
    with_cache() do cache
        started, done = Base.Event(), Base.Event()
        filler = @async get!(() -> (notify(started); wait(done); [1]), cache, 1)
        wait(started)
        @test get!(() -> [2], cache, 1; timeout = 0.05) == [2]
        @test get!(() -> [3], cache, 1; timeout = 0) == [3]
        @test !put!(cache, 1, [4]) && !put!(cache, 1, [4]; timeout = 0.05)
        notify(done)
        @test fetch(filler) == [1]
        @test get!(() -> [5], cache, 1) == [1]
        @test_throws ArgumentError get!(() -> [5], cache, 2; timeout = -1)
        @test get!(() -> [5], cache, 2; timeout = Inf) == [5]
    end
end
