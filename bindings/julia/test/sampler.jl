place(rank, ranks) = Topology(; local_rank = rank, local_size = ranks)

@testset "torch's and VisCy's samplers to the bit, by tests/golden/samplers.json" begin
    compared = 0
    for case in read_json(joinpath(GOLDEN, "samplers.json"))["cases"]
        haskey(case, "ranks") || continue
        for (rank, indices) in enumerate(case["ranks"])
            sampler = ShardedSampler(
                case["length"]; order = Symbol(case["sampler"]), tail = case["drop_last"] ? :drop : :pad,
                shuffle = case["shuffle"], seed = case["seed"], epoch = case["epoch"],
                topology = place(rank - 1, case["world_size"]),
            )
            compared += 1
            collect(sampler) == indices .+ 1 || error("$case, rank $rank: $(collect(sampler) .- 1)")
        end
    end
    @test compared > 800
end

@testset "a sampler is the vector of what its rank is dealt" begin
    sampler = ShardedSampler(10_001; seed = 3, topology = place(1, 2))
    @test sampler isa AbstractVector{Int} && length(sampler) == 5001 && size(sampler) == (5001,)
    all_ = collect(sampler)
    @test [index for index in sampler] == all_  # over the edge of a block
    @test [sampler[at] for at in eachindex(sampler)] == all_
    @test sampler[10:19] == all_[10:19] && sampler[end] == all_[end] && sampler[:] == all_
    @test reduce(vcat, map(collect, Iterators.partition(sampler, 32))) == all_
    @test all(index -> 1 <= index <= 10_001, all_)
    @test_throws BoundsError sampler[0]
    @test_throws BoundsError sampler[5002]
    @test_throws BoundsError sampler[5000:5002]
    @test isempty(sampler[1:0]) && isempty(ShardedSampler(0)) && collect(ShardedSampler(0)) == Int[]
    @test (1:10_001)[sampler] == all_
    @test occursin("5001 of rank 1 of 2", repr(sampler))
end

@testset "ranks share every epoch, and nodes keep their samples" begin
    samplers = [
        ShardedSampler(103; tail = :exact, topology = Topology(; node = n, nodes = 2, local_rank = r, local_size = 3))
        for r in 0:2, n in 0:1
    ]
    of_node = map(n -> Set(shard(samplers[1, n])), 1:2)
    orders = map(0:2) do e
        foreach(sampler -> set_epoch!(sampler, e), samplers)
        @test DDPCache.epoch(samplers[1]) == e
        dealt = map(collect, samplers)
        @test sort(reduce(vcat, dealt)) == 1:103
        @test all(Set(reduce(vcat, dealt[:, n])) == of_node[n] for n in 1:2)
        for (rank, indices) in enumerate(dealt), (position, index) in enumerate(indices)
            find(samplers[1], index) == (rank - 1, position) || error("$index is not at $rank, $position")
        end
        return dealt
    end
    @test allunique(orders)
    @test all(index -> keeps(samplers[1, 1], index) == (index in of_node[1]), 1:103)
    @test real_size(ShardedSampler(103; topology = place(5, 6))) == 17
    @test_throws BoundsError keeps(samplers[1], 104)
    @test_throws BoundsError find(samplers[1], 0)
end

@testset "an epoch is resumed under another number of ranks" begin
    place_of(k, n) = Topology(; node = k, nodes = n)
    ranks(n, nodes) = [ShardedSampler(1000; seed = 5, topology = place_of(k, n)) for k in 0:(nodes - 1)]
    first_ = ranks(4, 4)
    foreach(sampler -> set_epoch!(sampler, 2), first_)
    states = map(sampler -> save_state(sampler, 60), first_)
    @test all(isequal(states[1]), states) && length(states[1]) <= Raw.DC_SAMPLER_STATE_BYTES_MAX
    trained = reduce(vcat, [sampler[1:60] for sampler in first_])
    rest = ranks(2, 2)
    foreach(sampler -> load_state!(sampler, states[1]), rest)
    @test all(sampler -> length(sampler) == 380 && DDPCache.epoch(sampler) == 2, rest)
    @test sort([trained; reduce(vcat, map(collect, rest))]) == 1:1000
    foreach(sampler -> set_epoch!(sampler, 2), rest)  # as trainers do after loading
    @test length(rest[1]) == 380
    set_epoch!(rest[1], 3)
    @test length(rest[1]) == 500
    @test status_of(() -> load_state!(rest[1], states[1][1:end - 1])) == Raw.DC_ERROR_SAMPLER_STATE
    other = thrown(() -> load_state!(ShardedSampler(1000; seed = 6), states[1]))
    @test other.status == Raw.DC_ERROR_SAMPLER_STATE && occursin("seed", other.message)
    @test status_of(() -> save_state(first_[1], 251)) == Raw.DC_ERROR_RANGE
end

@testset "arguments" begin
    @test_throws ArgumentError ShardedSampler(10; order = :random)
    @test_throws ArgumentError ShardedSampler(10; exchange = 1.5)
    @test_throws ArgumentError ShardedSampler(10; seed = -1)
    @test status_of(() -> ShardedSampler(10; topology = Topology(; node = 2, nodes = 2))) == Raw.DC_ERROR_RANGE
    @test status_of(() -> ShardedSampler(10; order = :torch, tail = :exact)) == Raw.DC_ERROR_ARGUMENT
    @test status_of(() -> ShardedSampler(1; tail = :drop, topology = place(0, 2))) == Raw.DC_ERROR_EMPTY
    @test status_of(() -> set_epoch!(ShardedSampler(10), -1)) == Raw.DC_ERROR_RANGE
    @test collect(ShardedSampler(5; shuffle = false)) == 1:5
    @test collect(ShardedSampler(100; seed = typemax(UInt64))) != collect(ShardedSampler(100; seed = 0))
end

@testset "the launcher's variables say where a process stands" begin
    ranks = ("RANK" => "5", "WORLD_SIZE" => "6", "LOCAL_RANK" => "1", "LOCAL_WORLD_SIZE" => "2")
    withenv(ranks..., "GROUP_RANK" => "2") do
        found = topology()
        @test (found.node, found.nodes, found.local_rank, found.local_size, found.rank) == (2, 3, 1, 2, 5)
        @test found.launcher === :torchrun
        @test ShardedSampler(60).topology == found
    end
    withenv("RANK" => "7", "WORLD_SIZE" => "6") do
        contradiction = thrown(topology)
        @test contradiction.status == Raw.DC_ERROR_TOPOLOGY && occursin("RANK=7", contradiction.message)
    end
end
