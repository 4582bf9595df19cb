# In a Julia of two threads, whatever this one has.

@testset "threads fill and look, while both make garbage" begin
    name = unique_name()
    printed = run_julia(threads = 2, """
        using Base.Threads
        nthreads() == 2 || error("two threads were asked for")
        Cache("$name"; length = 400, fingerprint = "test", capacity = 8 << 20) do cache
            calls = [Atomic{Int}(0) for _ in 1:400]
            for round in 1:3
                @threads for k in 1:800
                    i = (k - 1) % 400 + 1  # each thread has its half of k, so both want every i
                    sample = get!(cache, i) do
                        atomic_add!(calls[i], 1)
                        sum(sum(rand(100)) for _ in 1:20) > 0 || error("garbage")
                        i % 40 == 0 && GC.gc()
                        return fill(i, 50)
                    end
                    sample == fill(i, 50) || error("sample \$i is \$sample")
                end
            end
            check(cache)
            print(all(call -> call[] == 1, calls), " ", stats(cache).fills)
        end
    """)
    @test printed == "true 400"
end

@testset "a thread that waits does not stop the collector of the one that it waits for" begin
    name = unique_name()
    # Thread 2 collects inside its loader while thread 1 waits for it in C, in one part as long as a minute. Outside of
    # the gc-safe state each would wait for the other until then, and the waiter would come back with DC_BUSY.
    printed = run_julia(threads = 2, """
        using Base.Threads
        using DDPCache: Pin, Raw, Request, load_once
        Cache("$name"; length = 5, fingerprint = "test", capacity = 1 << 20) do cache
            load_once(cache.handle, 4, Request(fill -> DDPCache.store!(fill, [0])), 0, Pin())  # compiles it
            statuses = zeros(Int32, 4)
            for i in 1:4
                started = Atomic{Bool}(false)
                @threads for thread in 1:2
                    if thread == 2
                        get!(cache, i) do
                            started[] = true
                            before = time_ns()
                            while time_ns() - before < 100_000_000; end  # the other is in C by now
                            GC.gc()
                            return [2]
                        end
                    else
                        while !started[]; GC.safepoint(); end
                        request = Request(fill -> DDPCache.store!(fill, [1]))
                        statuses[i] = load_once(cache.handle, i - 1, request, 60_000_000_000, Pin())
                    end
                end
            end
            print(statuses == zeros(4), " ", all(i -> cache[i] == [2], 1:4), " ", stats(cache).waits > 0)
        end
    """)
    @test printed == "true true true"
end

@testset "exceptions of loaders on two threads at once reach their own callers" begin
    name = unique_name()
    printed = run_julia(threads = 2, """
        using Base.Threads
        Cache("$name"; length = 200, fingerprint = "test", capacity = 1 << 20) do cache
            right = Atomic{Int}(0)
            @threads for k in 1:400
                try
                    get!(() -> throw(KeyError(k)), cache, (k - 1) % 200 + 1)
                catch exception
                    exception == KeyError(k) && atomic_add!(right, 1)
                end
            end
            check(cache)
            print(right[], " ", stats(cache).resident, " ", stats(cache).open_fills)
        end
    """)
    @test printed == "400 0 0"
end

@testset "closing is refused while another thread is inside a call" begin
    name = unique_name()
    printed = run_julia(threads = 2, """
        using Base.Threads
        cache = Cache("$name"; length = 2, fingerprint = "test", capacity = 1 << 20)
        started, done = Atomic{Bool}(false), Atomic{Bool}(false)
        @threads for thread in 1:2
            if thread == 2
                get!(cache, 1) do
                    started[] = true
                    while !done[]; GC.safepoint(); end
                    return [1]
                end
            else
                while !started[]; GC.safepoint(); end
                try
                    close(cache)
                catch exception
                    print(occursin("1 calls", exception.message), " ")
                end
                done[] = true
            end
        end
        print(cache[1] == [1], " ")
        close(cache)
        print(isopen(cache))
    """)
    @test printed == "true true false"
end
