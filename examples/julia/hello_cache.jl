# hello_cache: ten samples in a cache that any number of programs, in any language, share while one of them runs.
#
# Start it, or its namesakes in the other languages, several times at once with the same name: each sample is decoded by
# one of them and found by the others.
#
#     export PKG_CONFIG_PATH=PREFIX/lib/pkgconfig     # where ddpcache is installed
#     julia --project=../../bindings/julia hello_cache.jl [NAME]

using DDPCache

const LENGTH, ROWS, COLUMNS = 10, 2, 3

decoded = 0

# Stands for reading and decoding a file. Julia's first dimension is C's last one, so rows come last here. Julia counts
# samples from 1; they are shown as the other languages number them, from 0.
function decode(i)
    global decoded += 1
    return Int32[100 * (i - 1) + COLUMNS * (row - 1) + column - 1 for column in 1:COLUMNS, row in 1:ROWS]
end

name = get(ARGS, 1, "hello_cache")
Cache(name; length = LENGTH, fingerprint = "hello_cache 1", capacity = 1 << 20) do cache
    for i in eachindex(cache)
        sample = get!(() -> decode(i), cache, i)
        columns, rows = size(sample)
        println("sample $(i - 1): $rows x $columns, from $(sample[1, 1]) to $(sample[end, end])")
    end
end
println("decoded $decoded, found $(LENGTH - decoded)")
