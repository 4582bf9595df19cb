"""The C interface as SWIG makes it from include/ddpcache/*.h: its docstrings are the headers' comments. Internal."""

from typing import Any

class dc_error:
    status: int
    message: str

class dc_cache_options:
    clients_max: int
    length: int
    capacity_bytes: int
    sample_bytes: int
    sample_bytes_max: int
    timeout_ns: int
    job_id: int
    keep: int
    partial: int
    droppable: int
    keyed: int

class dc_sampler_options:
    order: int
    tail: int
    shuffle: int
    node: int
    nodes: int
    local_rank: int
    local_size: int
    length: int
    seed: int
    ring_seed: int
    ring_identity: int
    exchange_ppm: int
    canonical_nodes: int

def __getattr__(name: str) -> Any: ...
