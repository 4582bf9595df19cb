"""NUMA nodes and huge pages: asked for, never an error, and info says what was obtained."""

import ddpcache
import numpy as np
import pytest


def test_asking_is_no_error_and_info_answers(open_cache):
    cache = open_cache(interleave=True, huge_pages=True)
    cache[0] = np.arange(10)
    assert np.array_equal(cache[0], np.arange(10))
    assert cache.info.numa_nodes >= 1
    assert cache.info.page_bytes in (4096, 2 << 20)


def test_who_does_not_ask_gets_what_the_file_system_has(open_cache):
    assert (open_cache().info.numa_nodes, open_cache().info.page_bytes) == (1, 4096)


@pytest.mark.parametrize("option", ["interleave", "huge_pages"])
def test_attaching_asks_for_nothing(cache, name, option):
    with pytest.raises(TypeError, match="give length and fingerprint too"):
        ddpcache.Cache(name, **{option: True})
