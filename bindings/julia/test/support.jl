using DDPCache
using DDPCache: Raw
using Test

const PROJECT = dirname(@__DIR__)
const GOLDEN = joinpath(dirname(dirname(PROJECT)), "tests", "golden")
const PREFIX = "test-julia-$(getpid())-"

let number = 0
    "A name that no other test has."
    global unique_name() = "$PREFIX$(number += 1)"
end

left_behind() = filter(name -> startswith(name, PREFIX), cache_names())

"Runs f with a new cache, which must be sound at the end."
function with_cache(f, length = 10; options...)
    Cache(unique_name(); length = length, fingerprint = "test", capacity = 4 << 20, options...) do cache
        result = f(cache)
        check(cache)
        return result
    end
end

"The exception of f, which must throw one."
function thrown(f)
    try
        f()
    catch exception
        return exception
    end
    error("nothing was thrown")
end

"The status of the DDPCacheError that f must throw."
status_of(f) = (thrown(f)::DDPCacheError).status

function julia_command(code::String; threads = 1, environment = Pair{String, String}[])
    program = joinpath(Sys.BINDIR, "julia")
    command = `$(Base.julia_cmd()) --project=$PROJECT --startup-file=no -e $("using DDPCache; " * code)`
    return addenv_(command, "JULIA_NUM_THREADS" => string(threads), environment...)
end

addenv_(command, pairs...) = setenv(command, merge(Dict(ENV), Dict(pairs...)))

"What a new Julia prints that runs this code; it must succeed, within two minutes."
function run_julia(code::String; options...)
    output = Pipe()
    process = run(pipeline(julia_command(code; options...), stdout = output, stderr = stderr), wait = false)
    close(output.in)
    watchdog = Timer(_ -> kill(process, Base.SIGKILL), 120)
    printed = read(output, String)
    wait(process)
    close(watchdog)
    success(process) || error("a child of the test failed:\n$code\n$printed")
    return printed
end

"Waits until something is so, for a minute at most."
function wait_until(f)
    for _ in 1:6000
        f() && return true
        sleep(0.01)
    end
    return false
end

# ---- JSON, as far as the golden files have it. ----

mutable struct Json
    text::String
    at::Int
end

read_json(path) = json_value(Json(read(path, String), 1))

function next_char(json)
    while isspace(json.text[json.at])
        json.at = nextind(json.text, json.at)
    end
    return json.text[json.at]
end

function json_value(json)
    c = next_char(json)
    c == '{' && return Dict{String, Any}(json_items(json, '}', () -> json_pair(json)))
    c == '[' && return json_items(json, ']', () -> json_value(json))
    c == '"' && return json_string(json)
    found = match(r"true|false|null|-?[0-9.eE+-]+", json.text, json.at)
    json.at += ncodeunits(found.match)
    found.match == "null" && return nothing
    found.match in ("true", "false") && return found.match == "true"
    return something(tryparse(Int, found.match), tryparse(Float64, found.match), Some(nothing))
end

function json_items(json, last, item)
    items = Any[]
    json.at += 1
    while next_char(json) != last
        push!(items, item())
        next_char(json) == ',' && (json.at += 1)
    end
    json.at += 1
    return items
end

function json_pair(json)
    next_char(json)
    name = json_string(json)
    next_char(json) == ':' || error("no colon at $(json.at)")
    json.at += 1
    return name => json_value(json)
end

function json_string(json)
    found = match(r"\"((?:[^\"\\]|\\.)*)\"", json.text, json.at)
    json.at += ncodeunits(found.match)
    units = UInt16[]
    text = found.captures[1]
    at = 1
    while at <= ncodeunits(text)
        if startswith(SubString(text, at), "\\u")
            push!(units, parse(UInt16, text[(at + 2):(at + 5)]; base = 16))
            at += 6
        else
            append!(units, transcode(UInt16, string(text[at])))
            at = nextind(text, at)
        end
    end
    return transcode(String, units)
end
