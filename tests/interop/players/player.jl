# The player in Julia, over the package DDPCache: see ../README.md.

using DDPCache

const ORDERS = (:node, :torch, :viscy)
const TAILS = (:pad, :drop, :exact)
const BOOL = 6

struct Wanted
    name::String
    dtype::DType
    size::Dims  # in Julia's order
end

struct Record
    structure::Union{Nothing, String}
    arrays::Vector{Wanted}
end

function records_in(path)
    records = Record[]
    for line in eachline(path)
        kind, words = Iterators.peel(split(line, ' '))
        words = collect(words)
        if kind == "record"
            push!(records, Record(words[1] == "-" ? nothing : String(hex2bytes(words[1])), Wanted[]))
        else
            code, bits, lanes = parse.(Int, words[2:4])
            size = Tuple(reverse(parse.(Int, words[5:end])))
            name = words[1] == "-" ? "" : String(words[1])
            push!(records[end].arrays, Wanted(name, DType(code, bits, lanes), size))
        end
    end
    return records
end

"The bytes of array `number` of the record with this index, both from 0."
function content(wanted::Wanted, index, number)
    bytes = prod(wanted.size) * wanted.dtype.bits * wanted.dtype.lanes ÷ 8
    values = UInt8[(31index + 7number + k) % 251 for k in 0:(bytes - 1)]
    return wanted.dtype.code == BOOL ? values .% 0x02 : values
end

"Writes a record into the memory of a fill."
function fill_in(fill, index, record)
    memory = allocate!(
        fill, ((wanted.dtype, wanted.size, wanted.name) for wanted in record.arrays)...; structure = record.structure,
    )
    for (number, (array, wanted)) in enumerate(zip(memory, record.arrays))
        # Through a vector of the type, as a program has it.
        isempty(array) || copyto!(array, reinterpret(eltype(array), content(wanted, index, number - 1)))
    end
end

bytes_of(array) = collect(reinterpret(UInt8, vec(array)))

function compare(cache, sample, index, record)
    structure(cache, index + 1) == record.structure || error("sample $index has another structure")
    found = describe(cache, index + 1)
    wanted = [(name = each.name, dtype = each.dtype, size = each.size) for each in record.arrays]
    found == wanted || error("sample $index is $found, not $wanted")
    arrays = sample isa CacheArray ? (sample,) : Tuple(sample)
    length(arrays) == length(wanted) || error("sample $index has $(length(arrays)) arrays")
    for (number, (array, each)) in enumerate(zip(arrays, record.arrays))
        (size(array), dtype(array)) == (each.size, each.dtype) || error("array $(number - 1) of sample $index is another")
        size(rowmajor(array)) == reverse(each.size) || error("array $(number - 1) of sample $index is not C's in reverse")
        one_by_one = [array[at] for at in eachindex(array)]
        for copied in (Array(array), one_by_one)
            bytes_of(copied) == content(each, index, number - 1) ||
                error("array $(number - 1) of sample $index has other bytes")
        end
    end
end

# ---- The commands. ----

const caches = Dict{String, Cache}()

function opened(name, records)
    return get!(caches, name) do
        options = (capacity = 64 << 20, sample_bytes_max = 1 << 20, fingerprint = "interop")
        Cache(name; length = length(records), options...)
    end
end

function play_fill(name, path)
    records = records_in(path)
    cache = opened(name, records)
    for (i, record) in enumerate(records)
        calls = 0
        load!(fill -> (calls += 1; fill_in(fill, i - 1, record)), cache, i)
        calls == 1 && haskey(cache, i) || error("sample $(i - 1) was there, or is not stored")
    end
end

function play_read(name, path)
    records = records_in(path)
    cache = opened(name, records)
    for (i, record) in enumerate(records)
        compare(cache, cache[i], i - 1, record)
    end
end

function play_load(name, path)
    records, calls = records_in(path), 0
    cache = opened(name, records)
    for (i, record) in enumerate(records)
        sample = load!(fill -> (calls += 1; fill_in(fill, i - 1, record)), cache, i)
        compare(cache, sample, i - 1, record)
    end
    return calls
end

play_close(name) = close(pop!(caches, name))

struct Case
    sampler::ShardedSampler
    epoch::Int
    indices::Vector{Int}
end

function case_of(line)
    words = split(line)
    order, tail, shuffle, length_ = parse.(Int, words[1:4])
    epoch, nodes, local_size, node, local_rank, count = parse.(Int, words[6:11])
    indices = parse.(Int, words[12:end])
    length(indices) == count || error("$count indices are said to follow, and $(length(indices)) do")
    sampler = ShardedSampler(
        length_; order = ORDERS[order + 1], tail = TAILS[tail + 1], shuffle = shuffle != 0, epoch = epoch,
        seed = parse(UInt64, words[5]),
        topology = Topology(; node = node, nodes = nodes, local_rank = local_rank, local_size = local_size),
    )
    return Case(sampler, epoch, indices)
end

function compare_dealt(sampler, indices)
    for dealt in (sampler[:], Int[index for index in sampler])
        dealt == indices .+ 1 || error("the sampler deals $(dealt .- 1), not $indices")
    end
end

function play_sampler(path)
    for line in eachline(path)
        case = case_of(line)
        compare_dealt(case.sampler, case.indices)
    end
end

function play_save(path, consumed, to)
    write(to, save_state(case_of(readline(path)).sampler, parse(Int, consumed)))
    return nothing
end

function play_resume(path, state)
    case = case_of(readline(path))
    load_state!(case.sampler, read(state))
    set_epoch!(case.sampler, case.epoch)
    left = length(case.sampler)
    compare_dealt(case.sampler, case.indices[(end - left + 1):end])
end

const COMMANDS = Dict(
    "fill" => play_fill, "read" => play_read, "load" => play_load, "close" => play_close,
    "sampler" => play_sampler, "save" => play_save, "resume" => play_resume,
)

for line in eachline(stdin)
    words = String.(split(line))
    words == ["quit"] && break
    answer = try
        number = COMMANDS[words[1]](words[2:end]...)
        number isa Int ? "ok $number" : "ok"
    catch exception
        "error $(join(split(sprint(showerror, exception)), ' '))"
    end
    println(answer)
    flush(stdout)
end
foreach(close, values(caches))
