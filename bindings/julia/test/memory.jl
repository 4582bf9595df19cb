@testset "an array keeps its sample, and the mapping, alive" begin
    cache = Cache(unique_name(); length = 100, fingerprint = "test", capacity = 4 << 20, droppable = true)
    held = map(1:100) do i
        cache[i] = fill(i, 300)
        return cache[i]
    end
    # Removed, no longer looked at but by the arrays, and their space wanted by others.
    empty!(cache)
    foreach(_ -> GC.gc(), 1:3)
    for i in 1:100
        put!(cache, i, fill(-i, 300))
    end
    @test all(held[i] == fill(i, 300) for i in 1:100)
    close(cache)
    cache = nothing
    foreach(_ -> GC.gc(), 1:3)
    @test all(held[i] == fill(i, 300) for i in 1:100)
end

@testset "an array of a part keeps the whole sample alive" begin
    with_cache(2; droppable = true, sample_bytes = 64 << 10, capacity = 1 << 20) do cache
        cache[1] = (a = fill(1, 4000), b = fill(2, 4000))
        part = rowmajor(reshape(view(cache[1].b, 1:3000), 30, 100))
        remove!(cache, 1)
        for _ in 1:100
            GC.gc(false)
            put!(cache, 2, (a = fill(3, 4000), b = fill(4, 4000)))
            remove!(cache, 2)
        end
        GC.gc()
        @test all(isequal(2), part)
    end
end

@testset "what is collected is released" begin
    with_cache(10; droppable = true) do cache
        cache[1] = [1]
        for _ in 1:5000
            cache[1]
        end
        remove!(cache, 1)
        foreach(_ -> GC.gc(), 1:3)
        # More views than a client can name were held; none is left now, or this would say how many.
        @test check(cache).extents_named <= 1
    end
end

@testset "a cache that is forgotten is closed" begin
    name = unique_name()
    forget() = (cache = Cache(name; length = 3, fingerprint = "test", capacity = 1 << 20); cache[1] = [1]; nothing)
    forget()
    @test wait_until(() -> (GC.gc(); !(name in cache_names())))
end

@testset "collections inside a loader, also of arrays of the cache that is being filled" begin
    with_cache(300; droppable = true) do cache
        for i in 1:300
            sample = get!(cache, i) do
                garbage = [cache[k] for k in max(1, i - 20):(i - 1)]
                i % 3 == 0 && (garbage = nothing)
                GC.gc(i % 10 == 0)
                return [i, length(something(garbage, []))]
            end
            @test sample[1] == i
            i > 150 && remove!(cache, i - 150)
            load!(cache, i) do fill
                allocate!(fill, Int, 2) .= i
                GC.gc(false)
            end
        end
    end
end

@testset "finalizers of caches and arrays run inside a loader of another cache" begin
    with_cache() do cache
        name = unique_name()
        sample = get!(cache, 1) do
            for _ in 1:20
                other = Cache(name; length = 3, fingerprint = "test", capacity = 1 << 20)
                get!(() -> [1], other, 1)
                other = nothing
                GC.gc()
            end
            return [1]
        end
        @test sample == [1]
        @test wait_until(() -> (GC.gc(); !(name in cache_names())))
    end
end

@testset "arrays outlive the cache at the end of the program, whatever is finalized first" begin
    name = unique_name()
    printed = run_julia("""
        cache = Cache("$name"; length = 10, fingerprint = "test", capacity = 1 << 20)
        for i in 1:10
            cache[i] = fill(i, 100)
        end
        arrays = cache[:]
        atexit(() -> print(sum(sum, arrays)))
        late = Ref(0)
        finalizer(x -> late[] = sum(x[][3]), Ref{Any}(arrays))
    """)
    @test occursin("5500", printed)
    @test !(name in cache_names())
end
