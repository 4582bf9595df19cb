# The raw Julia layer at work: the cache named by the first argument, and the sampler. See test_raw.py.

include(joinpath(@__DIR__, "..", "..", "bindings", "julia", "src", "raw.jl"))
using .Raw

const name = ARGS[1]
const failure = Ref{Raw.dc_error}()

text(pointer) = unsafe_string(Ptr{UInt8}(pointer))
message() = GC.@preserve failure text(pointer_from_objref(failure) + fieldoffset(Raw.dc_error, 3))
succeed(status) = status == Raw.DC_OK || error("$(text(Raw.dc_strerror(status))): $(message())")

"Sets one field of a struct that is only reached by its address."
function set!(reference::Ref{T}, field::Symbol, value) where {T}
    at = findfirst(==(field), fieldnames(T))
    GC.@preserve reference begin
        place = pointer_from_objref(reference) + fieldoffset(T, at)
        unsafe_store!(Ptr{fieldtype(T, at)}(place), convert(fieldtype(T, at), value))
    end
end

padded(values, n) = ntuple(at -> at <= length(values) ? values[at] : zero(eltype(values)), n)

function write_sample(fill, first)
    array = Ref{Raw.dc_array}()
    GC.@preserve array ccall(:memset, Ptr{Cvoid}, (Ptr{Cvoid}, Cint, Csize_t), array, 0, sizeof(array[]))
    set!(array, :dimensions, 2)
    set!(array, :shape, padded(Int64[2, 3], 8))
    set!(array, :dtype_bits, 32)
    set!(array, :dtype_lanes, 1)
    set!(array, :name, padded(Vector{UInt8}("x"), 56))
    succeed(Raw.dc_cache_fill_allocate(fill, array, 1, "{\"v\": 1}", failure))
    @assert array[].bytes == 24
    unsafe_wrap(Array, Ptr{Int32}(array[].data), 6) .= first:first+5
end

function check(view, index, first)
    array = Ref{Raw.dc_array}()
    bytes = Ref{UInt64}()
    succeed(Raw.dc_view_array(view, 0, array))
    @assert array[].dimensions == 2 && array[].shape[1:2] == (2, 3) && array[].name[1:2] == (UInt8('x'), 0x00)
    @assert view[].index == index
    @assert unsafe_wrap(Array, Ptr{Int32}(view[].data), 6) == first:first+5
    @assert text(Raw.dc_view_structure(view, bytes)) == "{\"v\": 1}" && bytes[] == 8
    Raw.dc_cache_view_release(view)
    @assert view[].owner == C_NULL
end

function loader(fill::Ptr{Raw.dc_fill}, index::Int64, user)::Int32
    write_sample(fill, user[])
    Raw.DC_LOADED
end

failing(fill::Ptr{Raw.dc_fill}, index::Int64, user)::Int32 = 0

function cache()
    options = Ref{Raw.dc_cache_options}()
    handle = Ref{Ptr{Raw.dc_cache}}(C_NULL)
    succeed(Raw.dc_cache_options_init(options, sizeof(Raw.dc_cache_options)))
    set!(options, :length, 10)
    set!(options, :capacity_bytes, 1 << 20)
    succeed(Raw.dc_cache_open(name, C_NULL, "raw", options, handle, failure))
    fill = Ref{Ptr{Raw.dc_fill}}(C_NULL)
    succeed(Raw.dc_cache_fill_begin(handle[], 3, 0, fill))
    write_sample(fill[], 100)
    succeed(Raw.dc_cache_fill_commit(fill[]))
    view = Ref{Raw.dc_view}()
    @assert Raw.dc_cache_view(handle[], 4, view) == Raw.DC_MISS
    succeed(Raw.dc_cache_view(handle[], 3, view))
    check(view, 3, 100)
    callback = @cfunction(loader, Int32, (Ptr{Raw.dc_fill}, Int64, Any))
    succeed(Raw.dc_cache_load(handle[], 4, callback, Ref(200), 10^9, view))
    check(view, 4, 200)
    callback = @cfunction(failing, Int32, (Ptr{Raw.dc_fill}, Int64, Any))
    @assert Raw.dc_cache_load(handle[], 5, callback, nothing, 0, view) == Raw.DC_ERROR_LOADER
    succeed(Raw.dc_cache_close(handle[]))
    @assert Raw.dc_cache_attach(name, C_NULL, 0, handle, failure) == Raw.DC_ERROR_NOT_FOUND
    @assert occursin(name, message()) && failure[].status == Raw.DC_ERROR_NOT_FOUND
end

function sampler()
    options = Ref{Raw.dc_sampler_options}()
    handle = Ref{Ptr{Raw.dc_sampler}}(C_NULL)
    succeed(Raw.dc_sampler_options_init(options, sizeof(Raw.dc_sampler_options)))
    set!(options, :length, 20)
    set!(options, :seed, 7)
    succeed(Raw.dc_sampler_open(options, handle, failure))
    succeed(Raw.dc_sampler_set_epoch(handle[], 2, C_NULL))
    indices = Vector{Int64}(undef, 20)
    index = Ref{Int64}()
    succeed(Raw.dc_sampler_read(handle[], 0, indices, length(indices), failure))
    for expected in indices
        succeed(Raw.dc_sampler_next(handle[], index))
        @assert index[] == expected
    end
    @assert Raw.dc_sampler_next(handle[], index) == Raw.DC_END
    Raw.dc_sampler_close(handle[])
    println(join(indices, " "))
end

cache()
sampler()
