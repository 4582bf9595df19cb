# train: several processes learn to read handwritten digits, from samples that all of them share.
#
#     python ../python/cache_digits.py --file digits.csv
#     julia --project=../../bindings/julia train.jl digits.csv [NAME [RANKS]]
#
# The program starts RANKS (2) workers by Distributed. Each sample is read from the file by one of them, once, and found
# by the others; where another program has the digits cached under this NAME already
# (`python ../python/cache_digits.py NAME`), they are all found. The model is a softmax regression, trained by gradient
# descent on the first 1437 digits, with gradients averaged over the ranks at each step as DDP does; the rest judge it.

using Distributed
using Printf: @printf

isempty(ARGS) && error("usage: train.jl DIGITS.csv [NAME [RANKS]]")
const FILE = ARGS[1]
const NAME = get(ARGS, 2, "digits")
const RANKS = parse(Int, get(ARGS, 3, "2"))

# Workers are Julias as this one: of its project, with its options.
addprocs(RANKS; exeflags = [Base.julia_cmd().exec[2:end]; "--project=$(Base.active_project())"])

@everywhere begin
    using DDPCache

    const DIGITS, TRAINED = 1797, 1437
    const PIXELS, CLASSES = 64, 10
    const BATCH = 32

    "What the cache is filled from: line i has 64 pixels and the digit."
    mutable struct File
        path::String
        lines::Vector{String}
        decoded::Int
    end

    Base.length(::File) = DIGITS

    function Base.getindex(file::File, i::Int)
        file.decoded += 1
        isempty(file.lines) && append!(file.lines, readlines(file.path))
        numbers = parse.(Int, split(file.lines[i], ','))
        # The file has row after row, and so does Julia's memory if the columns come first.
        return (image = reshape(UInt8.(numbers[1:PIXELS]), 8, 8), label = numbers[end])
    end

    mutable struct Rank
        digits::CachedData{File}
        sampler::ShardedSampler
        judged::ShardedSampler
        used::Int
    end

    const RANK = Ref{Rank}()

    function start(path, name, place)
        cache = Cache(name; length = DIGITS, fingerprint = "digits 1", capacity = 4 << 20)
        digits = CachedData(File(path, String[], 0), cache)
        sampler = ShardedSampler(TRAINED; seed = 7, topology = place)
        judged = ShardedSampler(DIGITS - TRAINED; shuffle = false, topology = place)
        RANK[] = Rank(digits, sampler, judged, 0)
        return nothing
    end

    "Pixels, 0 to 1, with a 1 below them for the bias, a digit a column; and what digits they are."
    function batch(rank, indices)
        rank.used += length(indices)
        inputs = ones(Float32, PIXELS + 1, length(indices))
        labels = Vector{Int}(undef, length(indices))
        for (at, digit) in enumerate(rank.digits[indices])
            inputs[1:PIXELS, at] .= vec(digit.image) ./ 16f0
            labels[at] = digit.label[]
        end
        return inputs, labels
    end

    function probabilities(weights, inputs)
        sums = weights * inputs
        powers = exp.(sums .- maximum(sums; dims = 1))
        return powers ./ sum(powers; dims = 1)
    end

    "The gradient of this rank's part of a step, its loss, and how many samples they are of."
    function step(weights, epoch, number)
        rank = RANK[]
        number == 1 && set_epoch!(rank.sampler, epoch)
        first_ = BATCH * (number - 1) + 1
        inputs, labels = batch(rank, rank.sampler[first_:min(first_ + BATCH - 1, end)])
        errors = probabilities(weights, inputs)
        loss = 0f0
        for (at, label) in enumerate(labels)
            loss -= log(errors[label + 1, at])
            errors[label + 1, at] -= 1
        end
        return [errors * inputs', loss, length(labels)]
    end

    "How many of the digits kept back the model reads right. Each counts once, though some are dealt twice."
    function judge(weights)
        rank = RANK[]
        inputs, labels = batch(rank, TRAINED .+ rank.judged[1:real_size(rank.judged)])
        found = probabilities(weights, inputs)
        return count(at -> argmax(view(found, :, at)) == labels[at] + 1, eachindex(labels))
    end

    counts() = [RANK[].digits.data.decoded, RANK[].used]

    finish() = close(RANK[].digits.cache)
end

const EPOCHS, RATE = 5, 0.5f0

"The sum of what all ranks answer, in the order of ranks, so that it is the same in every run."
function sum_over_ranks(f, arguments...)
    answers = [remotecall(f, worker, arguments...) for worker in workers()]
    return sum(map(fetch, answers))
end

for (rank, worker) in enumerate(workers())
    remotecall_fetch(start, worker, FILE, NAME, Topology(; local_rank = rank - 1, local_size = RANKS))
end
weights = zeros(Float32, CLASSES, PIXELS + 1)
steps = cld(cld(TRAINED, RANKS), BATCH)
for epoch in 1:EPOCHS
    losses, samples = 0f0, 0
    for number in 1:steps
        gradient, loss, seen = sum_over_ranks(step, weights, epoch - 1, number)
        weights .-= RATE / seen .* gradient
        losses, samples = losses + loss, samples + seen
    end
    accuracy = 100 * sum_over_ranks(judge, weights) / (DIGITS - TRAINED)
    @printf("epoch %d/%d  loss %.4f  accuracy %.1f%%\n", epoch, EPOCHS, losses / samples, accuracy)
end
decoded, used = sum_over_ranks(counts)
println("decoded $decoded, found $(used - decoded)")
foreach(worker -> remotecall_fetch(finish, worker), workers())
