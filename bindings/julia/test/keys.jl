golden_key(key) = golden_key(only(keys(key)), only(values(key)))
golden_key(kind, value) =
    kind == "str" ? value :
    kind == "bytes" ? hex2bytes(value) :
    kind == "int" ? parse(BigInt, value) :
    kind == "tuple" ? Tuple(map(golden_key, value)) : error("a key of kind $kind")

@testset "keys have the bytes of tests/golden/keys.json" begin
    cases = read_json(joinpath(GOLDEN, "keys.json"))
    @test length(cases) > 20
    for case in cases
        @test bytes2hex(DDPCache.key_bytes(golden_key(case["key"]))) == case["bytes"]
    end
end

@testset "samples with keys" begin
    with_cache(20; keyed = true) do cache
        cache["train/1.png"] = [1]
        cache[("train", 1)] = [2]
        cache[1] = [3]
        cache[UInt8[1]] = [4]
        cache["1"] = [5]
        @test [cache["train/1.png"], cache[("train", 1)], cache[1], cache[UInt8[1]], cache["1"]] == [[i] for i in 1:5]
        @test cache[SubString("train/1.png", 1)] == [1] && cache[Int8(1)] == [3]
        @test get!(() -> [6], cache, "new") == [6] && get!(() -> [7], cache, "new") == [6]
        @test haskey(cache, "new") && !haskey(cache, "newer") && !haskey(cache, 100)
        @test thrown(() -> cache["newer"]) == KeyError("newer")
        @test lookup(cache, "newer") === nothing
        at = intern(cache, "newer")
        @test at in 1:20 && lookup(cache, "newer") == at && intern(cache, "newer") == at
        @test residency(cache)[lookup(cache, "new")] && !residency(cache)[at]
        @test cache[["1", "new"]] == [[5], [6]]
        @test gather(cache, ["1", "new"]) == [5 6]
        for key in (1.0, nothing, true, (1, 2.0), :symbol)
            @test_throws ArgumentError cache[key]
            @test_throws ArgumentError get!(() -> [1], cache, key)
        end
        for k in 100:130
            get!(() -> [k], cache, k) == [k] || error("key $k")
        end
        @test intern(cache, "none left") === nothing
        @test status_of(() -> cache["none left"] = [1]) == Raw.DC_FULL
        @test info(cache).keyed && info(cache).keys == 20
    end
    with_cache(5; keyed = true, droppable = true) do cache
        cache["a"] = [1]
        @test remove!(cache, ["a", "b"]) == 1 && !haskey(cache, "a")
        @test remove!(cache, "b") == 0 && remove!(cache, UInt8[1]) == 0
    end
    with_cache() do cache
        @test status_of(() -> intern(cache, "a")) == Raw.DC_ERROR_UNSUPPORTED
    end
end
