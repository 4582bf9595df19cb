@testset "gather puts samples along a last dimension, in the order of the indices" begin
    with_cache(20) do cache
        for i in 1:20
            cache[i] = (image = fill(UInt8(i), 3, 4, 2), label = i)
        end
        indices = [5, 1, 20, 5]
        batch = gather(cache, indices)
        @test batch isa NamedTuple{(:image, :label), Tuple{Array{UInt8, 4}, Vector{Int64}}}
        @test size(batch.image) == (3, 4, 2, 4) && batch.label == indices
        @test all(batch.image[:, :, :, at] == cache[i].image for (at, i) in enumerate(indices))
        @test gather(cache, 1:20; threads = 2).label == 1:20

        into = (image = zeros(UInt8, 3, 4, 2, 4), label = zeros(Int, 4))
        @test gather!(into, cache, indices) === into && into == batch
    end
end

@testset "gather of one array, and of what does not fit" begin
    with_cache(20) do cache
        for i in 1:10
            cache[i] = Float32[i, -i]
        end
        @test gather(cache, 2:3) == Float32[2 3; -2 -3]
        @test thrown(() -> gather(cache, [1, 11, 12])) == KeyError(11)
        @test thrown(() -> gather(cache, [11])) == KeyError(11)
        @test_throws BoundsError gather(cache, [1, 21])
        @test_throws ArgumentError gather(cache, Int[])
        @test gather!(zeros(Float32, 2, 0), cache, Int[]) == zeros(Float32, 2, 0)
        @test_throws DimensionMismatch gather!(zeros(Float32, 2, 3), cache, [1, 2])
        cache[11] = Float32[1 -1]   # the same bytes in another shape
        cache[12] = Int32[1, -1]    # and in another type
        cache[13] = (Float32[1, -1], 2)
        for i in 11:13
            other = thrown(() -> gather(cache, [1, i]))
            @test other.status == Raw.DC_ERROR_RECORD && occursin("sample of $i", other.message)
            @test status_of(() -> gather!(zeros(Float32, 2, 1), cache, [i])) == Raw.DC_ERROR_RECORD
        end
        @test status_of(() -> gather!(zeros(Float64, 2, 1), cache, [1])) == Raw.DC_ERROR_RECORD
        @test_throws ArgumentError gather!(1:3, cache, [1, 2, 3])
    end
end

@testset "read! copies into an array that is there" begin
    with_cache() do cache
        cache[1] = Int16[1 2; 3 4]
        @test read!(cache, 1, zeros(Int16, 2, 2)) == [1 2; 3 4]
        @test thrown(() -> read!(cache, 2, zeros(Int16, 2, 2))) == KeyError(2)
        for room in (3, 5)
            @test_throws DimensionMismatch read!(cache, 1, zeros(Int16, room))
        end
        @test populate!(cache) === cache
    end
end
