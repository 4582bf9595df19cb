@testset "samples of several arrays" begin
    with_cache() do cache
        cache[1] = (image = rand(UInt8, 3, 4), label = 7)
        sample = cache[1]
        @test sample isa NamedTuple{(:image, :label)}
        @test size(sample.image) == (3, 4) && sample.label[] == 7
        cache[2] = (1.5, [1, 2])
        @test cache[2] isa Tuple && cache[2][1][] == 1.5 && cache[2][2] == [1, 2]
        cache[3] = (only = [1],)
        @test keys(cache[3]) == (:only,)
        cache[4] = (image = rand(Float32, 2), label = 8)  # the same names, another type
        @test eltype(cache[4].image) == Float32 && cache[4].label[] == 8
        @test cache[1].image == sample.image
        cache[5] = Tuple(1:64)
        @test map(x -> x[], cache[5]) == Tuple(1:64)
        @test thrown(() -> cache[7] = Tuple(1:65)) isa DDPCacheError
        @test structure(cache, 1) === nothing
        @test describe(cache, 1) == [
            (name = "image", dtype = DType(1, 8), size = (3, 4)), (name = "label", dtype = DType(0, 64), size = ()),
        ]
        load!(cache, 6) do fill
            parts = allocate!(fill, (Int8, (2,), "one"), (Int8, (1,)); structure = "{\"own\": 1}")
            foreach(part -> part .= 1, parts)
        end
        @test cache[6] == ([1, 1], [1]) && structure(cache, 6) == "{\"own\": 1}"
        @test [part.name for part in describe(cache, 6)] == ["one", ""]
        @test_throws KeyError describe(cache, 9)
        @test_throws KeyError structure(cache, 9)
    end
end

@testset "indices are 1-based, and errors are Julia's own" begin
    with_cache(5) do cache
        @test length(cache) == 5 && eachindex(cache) == 1:5 && firstindex(cache) == 1 && lastindex(cache) == 5
        cache[1] = [10]
        cache[5] = [50]
        @test cache[begin] == [10] && cache[end] == [50]
        @test thrown(() -> cache[2]) == KeyError(2)
        @test haskey(cache, 1) && !haskey(cache, 2) && !haskey(cache, 0) && !haskey(cache, 6) && !haskey(cache, true)
        @test get(cache, 1, nothing) == [10] && get(cache, 2, nothing) === nothing
        @test get(() -> "none", cache, 2) == "none"
        for i in (0, 6, -1, typemax(Int64), typemin(Int64), UInt8(6))
            @test_throws BoundsError cache[i]
            @test_throws BoundsError cache[i] = [1]
            @test_throws BoundsError get!(() -> [1], cache, i)
        end
        @test_throws ArgumentError cache[true]
        @test status_of(() -> cache["name"]) == Raw.DC_ERROR_UNSUPPORTED
        @test cache[[5, 1, 5]] == [[50], [10], [50]]
        @test cache[[true, false, false, false, true]] == [[10], [50]]
        @test_throws KeyError cache[1:2]
        @test residency(cache) == [true, false, false, false, true]
        # The C index is one less.
        GC.@preserve cache @test Raw.dc_cache_contains(cache.handle, 4) == Raw.DC_OK
    end
end

@testset "a stored sample never changes" begin
    with_cache() do cache
        @test put!(cache, 1, [1])
        @test !put!(cache, 1, [2])
        @test status_of(() -> cache[1] = [2]) == Raw.DC_PRESENT
        @test cache[1] == [1]
    end
end

@testset "opening, attaching and closing" begin
    name = unique_name()
    @test status_of(() -> Cache(name)) == Raw.DC_ERROR_NOT_FOUND
    @test_throws ArgumentError Cache(name; length = 3)
    @test_throws ArgumentError Cache(name; fingerprint = nothing)
    @test_throws ArgumentError Cache(name; capacity = 3)
    @test_throws ArgumentError Cache(name; length = -1, fingerprint = nothing, checksums = :some)
    @test status_of(() -> Cache("not/a name"; length = 1, fingerprint = "")) == Raw.DC_ERROR_NAME
    cache = Cache(name; length = 3, fingerprint = "v1", capacity = 1 << 20)
    @test name in cache_names()
    @test info(cache).created && info(cache).fingerprint == "v1" && info(cache).name == name
    Cache(name) do other
        cache[1] = [1]
        @test other[1] == [1] && info(other).clients_attached == 2 && length(other) == 3
    end
    other_version = thrown(() -> Cache(name; length = 3, fingerprint = "v2"))
    @test other_version.status == Raw.DC_ERROR_FINGERPRINT
    @test occursin("v1", other_version.message) && occursin("v2", other_version.message)
    @test occursin("DC_ERROR_FINGERPRINT, -23", sprint(showerror, other_version))
    @test status_of(() -> Cache(name; length = 4, fingerprint = "v1")) == Raw.DC_ERROR_MISMATCH
    close(cache)
    @test !(name in cache_names())
end

@testset "a cache that is kept is taken over by its fingerprint alone" begin
    name = unique_name()
    options = (length = 3, fingerprint = "v1", capacity = 1 << 20, keep = true)
    Cache(cache -> cache[2] = [2], name; options...)
    @test status_of(() -> Cache(name)) == Raw.DC_ERROR_NOT_FOUND
    Cache(name; options...) do cache
        @test cache[2] == [2] && info(cache).adopted
    end
    Cache(name; read_only = true) do cache
        @test cache[2] == [2]
    end
    unlink(name)
    @test status_of(() -> unlink(name)) == Raw.DC_ERROR_NOT_FOUND
end

@testset "a read-only client changes nothing" begin
    with_cache() do cache
        cache[1] = [1]
        Cache(cache.name; read_only = true) do reader
            @test info(reader).read_only && reader[1] == [1]
            @test status_of(() -> reader[2] = [2]) == Raw.DC_ERROR_UNSUPPORTED
            @test get!(() -> [2], reader, 2) == [2]
            @test load!(fill -> allocate!(fill, Int, 1) .= 2, reader, 2) == [2]
            @test status_of(() -> remove!(reader, 1)) == Raw.DC_ERROR_UNSUPPORTED
        end
        @test !haskey(cache, 2)
        @test_throws ArgumentError Cache(cache.name; read_only = true, length = 10, fingerprint = "test")
    end
end

@testset "a cache in a directory" begin
    mktempdir("/dev/shm") do folder
        Cache("here"; length = 2, fingerprint = "", directory = folder, capacity = 1 << 20) do cache
            cache[1] = [1]
            @test cache_names(directory = folder) == ["here"]
            @test Cache(other -> copy(other[1]), "here"; directory = folder) == [1]
        end
        @test cache_names(directory = folder) == []
    end
end

@testset "removing" begin
    with_cache(6; droppable = true) do cache
        for i in 1:6
            cache[i] = [i]
        end
        held = cache[2]
        @test remove!(cache, 2) == 1 && !haskey(cache, 2) && remove!(cache, 2) == 0
        @test held == [2]
        @test remove!(cache, [1, 2, 3, 3]) == 2
        @test_throws BoundsError remove!(cache, [4, 7])
        @test haskey(cache, 4)
        delete!(cache, 4)
        @test residency(cache) == [false, false, false, false, true, true]
        cache[4] = [44]
        @test cache[4] == [44] && held == [2]
        empty!(cache)
        @test stats(cache).resident == 0 && stats(cache).removed == 7
    end
    with_cache() do cache
        refused = thrown(() -> remove!(cache, 1))
        @test refused.status == Raw.DC_ERROR_UNSUPPORTED && occursin("droppable", refused.message)
    end
end

@testset "a removed sample's memory is used again once its arrays are released" begin
    with_cache(200; droppable = true, capacity = 1 << 20, sample_bytes = 64 << 10) do cache
        held = nothing
        for i in 1:200
            put!(cache, i, fill(UInt8(i), 64 << 10)) || error("no room for sample $i")
            withsample(sample -> @test(all(isequal(UInt8(i)), sample)), cache, i)
            i == 1 && (held = cache[1])
            remove!(cache, i)
        end
        @test all(isequal(0x01), held)
    end
end

@testset "stats, info, check and estimate" begin
    with_cache() do cache
        get!(() -> [1], cache, 1)
        get!(() -> [1], cache, 1)
        counts = stats(cache)
        @test (counts.hits, counts.misses, counts.fills, counts.resident) == (1, 1, 1, 1)
        @test counts.hit_rate == 0.5 && counts == stats(cache; scope = :client)
        @test_throws ArgumentError stats(cache; scope = :node)
        @test check(cache).entries_ready == 1 && check(cache).violations == 0
        @test info(cache).checksums === :off && info(cache).created === true
        @test occursin("1 of 10 samples", repr(cache))
    end
    room = estimate(1000, 3072; fixed = true)
    @test 1000 * 3072 <= room.capacity < room.total
    @test gc_caches() isa Int
end

@testset "no room" begin
    with_cache(100; capacity = 1 << 20, sample_bytes = 128 << 10) do cache
        stored = [put!(cache, i, fill(UInt8(i), 128 << 10)) for i in 1:100]
        @test 0 < count(stored) < 100
        i = findfirst(!, stored)
        @test status_of(() -> cache[i] = fill(UInt8(i), 128 << 10)) == Raw.DC_FULL
        decoded = fill(UInt8(i), 128 << 10)
        @test get!(() -> decoded, cache, i) === decoded  # the loader's own: it is not decoded again
        own = load!(fill -> allocate!(fill, UInt8, 128 << 10) .= 5, cache, i)
        @test own isa Vector{UInt8} && all(isequal(5), own)
        too_large = thrown(() -> cache[i] = zeros(UInt8, (128 << 10) + 1))
        @test too_large.status == Raw.DC_ERROR_TOO_LARGE && occursin("131073", too_large.message)
        @test status_of(() -> get!(() -> zeros(UInt8, 1 << 18), cache, i)) == Raw.DC_ERROR_TOO_LARGE
    end
end
