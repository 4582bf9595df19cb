# C structs that hold text are read and written in place: Julia compiles code that moves a tuple of a thousand bytes
# about, but takes seconds to do so.

"A C struct of zeros."
function zeroed(::Type{T}) where {T}
    made = Ref{T}()
    GC.@preserve made ccall(:memset, Ptr{Cvoid}, (Ptr{Cvoid}, Cint, Csize_t), address(made), 0, sizeof(T))
    return made
end

"A C struct of zeros that says its size."
function sized(::Type{T}) where {T}
    made = zeroed(T)
    GC.@preserve made unsafe_store!(Ptr{UInt32}(address(made)), UInt32(sizeof(T)))
    return made
end

address(struct_::Base.RefValue{T}) where {T} = Ptr{UInt8}(pointer_from_objref(struct_))

# Generated, since looking a field up by its name at run time takes longer than a hit.
@generated offset_of(::Type{T}, ::Val{name}) where {T, name} = Int(fieldoffset(T, Base.fieldindex(T, name)))
@generated field_type(::Type{T}, ::Val{name}) where {T, name} = fieldtype(T, name)
@inline offset_of(::Type{T}, name::Symbol) where {T} = offset_of(T, Val(name))
@inline field(memory::Ptr{UInt8}, ::Type{T}, name::Symbol) where {T} =
    unsafe_load(Ptr{field_type(T, Val(name))}(memory + offset_of(T, name)))
@inline set_field!(memory::Ptr{UInt8}, ::Type{T}, name::Symbol, value) where {T} =
    unsafe_store!(Ptr{field_type(T, Val(name))}(memory + offset_of(T, name)), value)

"The text of a field of characters."
text_field(memory::Ptr{UInt8}, ::Type{T}, name::Symbol) where {T} = unsafe_string(memory + offset_of(T, name))

const FLAGS = (:created, :adopted, :droppable, :keep, :keyed, :read_only)

"All fields of a C struct, as Julia has them."
@generated function record(found::Base.RefValue{T}) where {T}
    fields = filter(name -> !(name in (:struct_size, :reserved)), fieldnames(T))
    function value(name)
        quoted = QuoteNode(name)
        fieldtype(T, name) <: NTuple && return :(text_field(memory, T, $quoted))
        raw = :(field(memory, T, $quoted))
        name in FLAGS && return :($raw != 0)
        name === :checksums && return :(CHECKSUMS[$raw + 1])
        return fieldtype(T, name) === UInt64 && name === :job_id ? raw : :(Int($raw))
    end
    return quote
        GC.@preserve found begin
            memory = address(found)
            NamedTuple{$fields}(($(map(value, fields)...),))
        end
    end
end
