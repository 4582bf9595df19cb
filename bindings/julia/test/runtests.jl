# The tests of the package: julia --project=bindings/julia bindings/julia/test/runtests.jl [NAME...]
#
# Each file of this folder but the support is a set of tests; names choose some. Tests that need several threads or
# processes start Julia anew, so it does not matter how many threads this one has.

include("support.jl")

const FILES = [
    "arrays", "dtypes", "cache", "loading", "memory", "batches", "keys", "saving", "sampler", "data",
    "threads", "processes", "package",
]

chosen = isempty(ARGS) ? FILES : ARGS
@testset "DDPCache" begin
    for name in chosen
        @testset "$name" begin
            include(joinpath(@__DIR__, "$name.jl"))
        end
    end
end

@test left_behind() == String[]
