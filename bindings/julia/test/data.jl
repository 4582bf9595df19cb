# MLUtils cannot be had here. This is what its documentation says of data containers and of DataLoader, no more: numobs
# falls back to length and getobs to getindex; a loader cuts the indices into batches, and a batch is getobs of a vector
# of indices, or with collate the batch of getobs of each.
module MLUtilsFallbacks
numobs(data) = length(data)
getobs(data, i) = data[i]
collated(observations) =
    first(observations) isa Tuple ?
    Tuple(collated([o[k] for o in observations]) for k in 1:length(first(observations))) :
    cat(observations...; dims = ndims(first(observations)) + 1)
function eachbatch(f, data; batchsize, indices = 1:numobs(data), collate = false)
    for chosen in Iterators.partition(indices, batchsize)
        f(collate ? collated([getobs(data, i) for i in chosen]) : getobs(data, chosen))
    end
end
end

struct Decoding
    decoded::Vector{Int}
end
Base.length(data::Decoding) = length(data.decoded)
function Base.getindex(data::Decoding, i::Int)
    data.decoded[i] += 1
    return (fill(Float32(i), 2, 3), i)
end

@testset "a cached data set is decoded once, and is a data container" begin
    with_cache() do cache
        data = Decoding(zeros(Int, 10))
        cached = CachedData(data, cache)
        @test MLUtilsFallbacks.numobs(cached) == 10
        for epoch in 1:3
            labels = Int[]
            MLUtilsFallbacks.eachbatch(cached; batchsize = 4) do batch
                append!(labels, [label[] for (_, label) in batch])
                @test all(image == fill(label[], 2, 3) for (image, label) in batch)
            end
            @test labels == 1:10
        end
        sampler = ShardedSampler(length(cached))
        seen = Int[]
        MLUtilsFallbacks.eachbatch(cached; batchsize = 5, indices = sampler, collate = true) do (images, labels)
            @test size(images) == (2, 3, 5) && images[1, 1, :] == labels
            append!(seen, labels)
        end
        @test sort(seen) == 1:10
        @test data.decoded == ones(10)
        @test stats(cache).hit_rate ≈ 30 / 40
        @test cached[3:4] == [cached[3], cached[4]] && length(cached[:]) == 10 && cached[end][2][] == 10
        @test [label[] for (_, label) in cached] == 1:10
        @test_throws BoundsError cached[11]
        @test occursin("10 observations", repr(cached))
    end
end

@testset "data sets that share a keyed cache" begin
    with_cache(30; keyed = true) do cache
        train = CachedData(10:10:100, cache; key = i -> ("train", i))
        test = CachedData(1:5, cache; key = i -> ("test", i))
        @test map(x -> x[], train[:]) == 10:10:100 && map(x -> x[], test[:]) == 1:5
        @test cache[("test", 2)][] == 2
        @test_throws ArgumentError CachedData(1:5, cache)
    end
end

@testset "data that are not indexed, or too many" begin
    with_cache() do cache
        cached = CachedData(1:3, cache; get = (data, i) -> [data[i], -i])
        @test cached[2] == [2, -2]
        too_many = thrown(() -> CachedData(1:11, cache))
        @test too_many isa ArgumentError && occursin("11", too_many.msg) && occursin("10", too_many.msg)
    end
end
