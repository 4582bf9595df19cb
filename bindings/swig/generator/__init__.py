"""Raw bindings from the public headers, as SWIG reads them.

`tree` asks SWIG for its parse tree and makes an `interface` of it, `source` compares that with the headers' own text,
`layout` computes where each field lies and asks a C compiler the same, and `julia`, `rust` and `python` write.
"""
