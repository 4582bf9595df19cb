@testset "the package works from its precompiled form, as from its source" begin
    code = """
        Cache("$(unique_name())"; length = 3, fingerprint = "test", capacity = 1 << 20) do cache
            print(get!(() -> [1], cache, 1) == [1], " ")
            try get!(() -> error("own"), cache, 2) catch exception; print(exception.msg, " ") end
            path = tempname()
            print(save(cache, path; progress = (_...) -> nothing))
            rm(path)
        end
    """
    mktempdir() do depot
        # The first one compiles it, the second finds that; pointers to functions must be each process's own.
        for _ in 1:2
            @test run_julia(code; environment = ["JULIA_DEPOT_PATH" => depot]) == "true own 1"
        end
        folders = walkdir(joinpath(depot, "compiled"))
        compiled = [joinpath(folder, file) for (folder, _, files) in folders for file in files]
        @test count(path -> endswith(path, ".ji") && occursin("DDPCache", path), compiled) == 1
    end
end

@testset "the library is another than the package is for" begin
    failing(path) = run(pipeline(
        julia_command("1"; environment = ["DDPCACHE_LIBRARY" => path]), stdout = devnull, stderr = devnull,
    ), wait = false)
    for path in ("/nowhere/libddpcache.so.1", joinpath(Sys.BINDIR, "julia"))
        process = failing(path)
        wait(process)
        @test !success(process)
    end
end

@testset "every exported name has a docstring" begin
    for name in names(DDPCache)
        name === :DDPCache && continue
        @test haskey(Base.Docs.meta(DDPCache), Base.Docs.Binding(DDPCache, name))
    end
end
