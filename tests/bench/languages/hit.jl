# Hits through Julia, each giving an array: as hit.c.
using DDPCache

function hit(cache, n, count)
    total = 0
    for i in 0:(count - 1)
        total += length(cache[i % n + 1])
    end
    return total
end

Cache(ARGS[1]) do cache
    for line in eachline(stdin)
        println(hit(cache, length(cache), parse(Int, line)))
        flush(stdout)
    end
end
