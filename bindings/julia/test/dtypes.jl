const TYPES = [
    Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float16, Float32, Float64, Bool, Complex{Float16},
    ComplexF32, ComplexF64,
]

"Values of all kinds of bits, not a number among them."
values_of(::Type{Bool}, n) = isodd.(1:n)
values_of(::Type{T}, n) where {T} = collect(reinterpret(T, [UInt8(31k % 251) for k in 0:(n * sizeof(T) - 1)]))

bits(array) = reinterpret(UInt8, vec(collect(array)))

@testset "every type that Julia has comes back bit for bit, in every number of dimensions" begin
    with_cache(length(TYPES) * 9) do cache
        i = 0
        for T in TYPES, N in 0:8
            size_ = ntuple(d -> d == 3 ? 3 : d % 2 + 1, N)
            values = reshape(values_of(T, prod(size_)), size_)
            cache[i += 1] = values
            @test cache[i] isa CacheArray{T, N}
            @test size(cache[i]) == size_
            @test bits(cache[i]) == bits(values)
            @test dtype(cache[i]) == dtype(T)
        end
        @test i == length(cache)
    end
end

@testset "DLPack's names of the types" begin
    @test map(dtype, (Int8, UInt64, Float16, Bool)) == (DType(0, 8), DType(1, 64), DType(2, 16), DType(6, 8))
    @test map(dtype, (ComplexF32, ComplexF64)) == (DType(5, 64), DType(5, 128))
    @test dtype(NTuple{4, Float32}) == DType(2, 32, 4)
    for T in (Int128, Char, String, Any, Rational{Int}, NTuple{2, Char}, BigFloat)
        @test_throws ArgumentError dtype(T)
    end
end

@testset "types that Julia lacks keep their bits, and their type" begin
    with_cache() do cache
        cache[1] = bfloat16(UInt16[0x3f80, 0xc000])
        @test cache[1] isa CacheArray{UInt16, 1}
        @test cache[1] == UInt16[0x3f80, 0xc000]
        @test dtype(cache[1]) == DType(4, 16)
        cache[2] = cache[1]  # stored again, it is still a bfloat16
        @test dtype(cache[2]) == DType(4, 16)

        cache[3] = typed(UInt8[1, 2, 3], DType(10, 8))  # a float of eight bits
        @test cache[3] == UInt8[1, 2, 3] && dtype(cache[3]) == DType(10, 8)
        cache[4] = [(1.0f0, 2.0f0), (3.0f0, 4.0f0)]  # two lanes
        @test cache[4] == [(1.0f0, 2.0f0), (3.0f0, 4.0f0)] && dtype(cache[4]) == DType(2, 32, 2)
        cache[5] = typed(UInt8[0x21, 0x43], DType(0, 4, 2))  # two integers of four bits
        @test cache[5] == UInt8[0x21, 0x43] && dtype(cache[5]) == DType(0, 4, 2)
        cache[6] = typed([(0x01, 0x02, 0x03)], DType(3, 24))
        @test cache[6] == [(0x01, 0x02, 0x03)]
        @test_throws ArgumentError typed(UInt8[1], DType(4, 16))
    end
end

@testset "a bool of another language is true for any byte but 0" begin
    with_cache() do cache
        load!(cache, 1) do fill
            memory = allocate!(fill, DType(6, 8), 4)
            @test memory isa FillArray{Bool}
            unsafe_copyto!(Ptr{UInt8}(pointer(memory)), pointer(UInt8[0, 1, 2, 255]), 4)
        end
        @test cache[1] == [false, true, true, true]
        @test Array(cache[1]) == [false, true, true, true]
        @test bits(cache[1]) == [0, 1, 1, 1]
        @test count(cache[1]) == 3
        cache[2] = BitVector([true, false])
        @test cache[2] == [true, false]
    end
end

@testset "empty arrays and scalars" begin
    with_cache() do cache
        cache[1] = zeros(Float32, 3, 0, 2)
        @test size(cache[1]) == (3, 0, 2) && isempty(cache[1]) && sum(cache[1]) == 0
        cache[2] = 7
        @test cache[2] isa CacheArray{Int, 0} && cache[2][] == 7
        cache[3] = fill(0x05)
        @test cache[3][] === 0x05
    end
end

@testset "what a cache cannot hold is refused before anything is claimed" begin
    with_cache() do cache
        for sample in ("text", [1, 2, "three"], (1, (2, 3)), [[1], [2]], nothing, big(1), zeros(ntuple(_ -> 1, 9)))
            @test_throws ArgumentError cache[1] = sample
            @test_throws ArgumentError get!(() -> sample, cache, 1)
        end
        @test stats(cache).open_fills == 0 && !haskey(cache, 1)
        @test_throws ArgumentError cache[1] = NamedTuple{(Symbol("n"^56),)}((1,))
    end
end
