using LinearAlgebra: mul!
using Serialization

@testset "dimensions are those of C reversed, and rowmajor gives C's" begin
    with_cache() do cache
        pixels = reshape(collect(Int32, 1:24), 4, 3, 2)
        cache[1] = pixels
        stored = cache[1]
        @test stored isa CacheArray{Int32, 3}
        @test stored isa DenseArray{Int32, 3}
        @test size(stored) == (4, 3, 2) && strides(stored) == (1, 4, 12)
        @test stored == pixels
        @test size(rowmajor(stored)) == (2, 3, 4)
        @test rowmajor(stored)[2, 3, 4] == pixels[4, 3, 2]
        @test rowmajor(rowmajor(stored)) == pixels

        # As C has it: the shape, and the bytes in C order.
        view, array = Ref{Raw.dc_view}(), Ref{Raw.dc_array}()
        GC.@preserve cache begin
            @test Raw.dc_cache_view(cache.handle, 0, view) == Raw.DC_OK
            @test Raw.dc_view_array(view, 0, array) == Raw.DC_OK
            @test array[].shape[1:3] == (2, 3, 4)
            @test unsafe_wrap(Array, Ptr{Int32}(array[].data), 24) == 1:24
            Raw.dc_cache_view_release(view)
        end
    end
end

@testset "an array of any layout is stored as its elements stand in Julia" begin
    with_cache() do cache
        square = reshape(collect(Float64, 1:12), 3, 4)
        for (i, layout) in enumerate((square', view(square, 1:2, 2:4), PermutedDimsArray(square, (2, 1)), 1:5))
            cache[i] = layout
            @test cache[i] == layout
            @test size(cache[i]) == size(layout)
        end
    end
end

@testset "arrays are read only, for Julia and for foreign code" begin
    with_cache() do cache
        cache[1] = ones(Float64, 2, 2)
        stored = cache[1]
        @test_throws ReadOnlyMemoryError stored[1] = 2
        @test_throws ReadOnlyMemoryError stored[1, 2] = 2
        @test_throws ReadOnlyMemoryError fill!(stored, 0)
        @test_throws ReadOnlyMemoryError stored .= 0
        @test_throws ReadOnlyMemoryError unsafe_store!(pointer(stored), 2.0)
        @test_throws ReadOnlyMemoryError mul!(stored, [1.0 0; 0 1], [3.0 0; 0 3])  # BLAS writes by the pointer
        @test cache[1] == ones(2, 2)
    end
end

@testset "arrays work as arrays do" begin
    with_cache() do cache
        values = rand(Float32, 5, 4)
        cache[1] = values
        stored = cache[1]
        @test sum(stored) ≈ sum(values)
        @test stored .+ 1 == values .+ 1
        @test stored * ones(Float32, 4, 2) ≈ values * ones(Float32, 4, 2)
        @test stored[2:3, :] == values[2:3, :]
        @test view(stored, :, 2) == values[:, 2]
        @test reshape(stored, 10, 2) == reshape(values, 10, 2)
        @test reinterpret(UInt32, stored) == reinterpret(UInt32, values)
        @test permutedims(stored) == permutedims(values)
        @test map(x -> 2x, stored) == 2values
        @test hash(stored) == hash(values) && isequal(stored, values)
        @test_throws BoundsError stored[21]
        @test_throws BoundsError stored[6, 1]
        @test occursin("5×4 CacheArray{Float32,2}", repr(MIME"text/plain"(), stored))
    end
end

@testset "copies are the program's own" begin
    with_cache() do cache
        cache[1] = [1, 2, 3]
        stored = cache[1]
        for own in (Array(stored), copy(stored), collect(stored), similar(stored) .= stored)
            @test own isa Vector{Int}
            own[1] = 7
        end
        buffer = IOBuffer()
        serialize(buffer, stored)
        @test deserialize(seekstart(buffer)) == [1, 2, 3]
        @test stored == [1, 2, 3]
        @test deepcopy(stored) === stored  # it cannot change
        @test copyto!(zeros(Int, 5), stored) == [1, 2, 3, 0, 0]
        @test_throws BoundsError copyto!(zeros(Int, 2), stored)
    end
end

@testset "a released array is an error, not a crash" begin
    with_cache() do cache
        cache[1] = (rand(3), 4)
        sample = cache[1]
        release(sample)
        for use in (length, sum, copy, pointer, a -> a[1], a -> a .+ 1, a -> copyto!(zeros(3), a))
            @test status_of(() -> use(sample[1])) == Raw.DC_ERROR_STATE
        end
        @test status_of(() -> sample[2][]) == Raw.DC_ERROR_STATE
        @test occursin("released", repr(sample[1]))
        release(sample)  # twice does no harm
        kept = withsample(first, cache, 1)
        @test status_of(() -> sum(kept)) == Raw.DC_ERROR_STATE
    end
end

@testset "arrays stay valid when the cache is closed, in any order of release" begin
    cache = Cache(unique_name(); length = 4, fingerprint = "test", capacity = 4 << 20)
    for i in 1:4
        cache[i] = fill(i, 1000)
    end
    samples = cache[:]
    close(cache)
    @test all(sum(samples[i]) == 1000i for i in 1:4)
    foreach(release, samples[[3, 1, 4]])
    @test samples[2] == fill(2, 1000)
    @test !isopen(cache)
    close(cache)  # twice does no harm
    @test status_of(() -> cache[1]) == Raw.DC_ERROR_STATE
    @test occursin("closed", repr(cache))
end
