@testset "a saved cache is restored" begin
    mktempdir() do folder
        path = joinpath(folder, "saved.cache")
        with_cache(50) do cache
            for i in 1:2:50
                cache[i] = fill(Float32(i), 100)
            end
            steps = Tuple{Int, Int}[]
            @test save(cache, path; progress = (done, total) -> push!(steps, (done, total))) == 25
            @test issorted(steps) && steps[end][1] == steps[end][2] == saved_info(path).file_bytes
            @test thrown(() -> save(cache, joinpath(folder, "none", "x"))).status == Raw.DC_ERROR_SYSTEM

            # Stopped, by its answer or by an exception, it leaves the file that was there.
            before = read(path)
            @test status_of(() -> save(cache, path; progress = (_...) -> false)) == Raw.DC_INTERRUPTED
            @test thrown(() -> save(cache, path; progress = (_...) -> throw(KeyError(3)))) == KeyError(3)
            @test read(path) == before && readdir(folder) == ["saved.cache"]
        end
        found = saved_info(path)
        @test (found.samples, found.length, found.fingerprint) == (25, 50, "test")

        name = unique_name()
        heard = Ref(0)
        cache = restore(path, name; fingerprint = "test", progress = (done, total) -> (GC.gc(); heard[] += 1; nothing))
        @test heard[] > 0 && info(cache).created && length(cache) == 50
        @test residency(cache) == isodd.(1:50)
        @test all(cache[i] == fill(Float32(i), 100) for i in 1:2:50)
        check(cache)
        again = restore(path, name)
        @test !info(again).created && again[3] == cache[3]
        close(again)
        close(cache)
        @test status_of(() -> restore(path, name; fingerprint = "other")) == Raw.DC_ERROR_FINGERPRINT
        @test status_of(() -> restore(joinpath(folder, "none"), name)) == Raw.DC_ERROR_NOT_FOUND
        @test thrown(() -> restore(path, name; progress = (_...) -> throw(KeyError(4)))) == KeyError(4)
        @test status_of(() -> saved_info(@__FILE__)) in (Raw.DC_ERROR_DAMAGED, Raw.DC_ERROR_ARGUMENT)

        droppable = restore(path, name; droppable = true, checksums = :fill)
        @test info(droppable).droppable && info(droppable).checksums === :fill && remove!(droppable, 1) == 1
        close(droppable)
    end
end
