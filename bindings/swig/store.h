/* Putting Python samples into the cache. */
#ifndef DDPCACHE_SWIG_STORE_H
#define DDPCACHE_SWIG_STORE_H

#include "handle.h"

/* Stores a sample where the index is empty and nobody is filling it. Returns the C status as an outcome (DC_OK,
 * DC_PRESENT, DC_BUSY, DC_FULL), or -1 with a Python exception. */
int32_t dcpy_store(dcpy_handle *handle, const dcpy_which *which, PyObject *sample);

/* What a loader returns for a sample. NULL with an exception. */
PyObject *dcpy_call_loader(PyObject *loader, const dcpy_which *which);

/* The sample of a missing index: the cache's where it could be filled, else what the loader returned. NULL with an
 * exception: the loader's own, unchanged, or that of a status. */
PyObject *dcpy_load(dcpy_handle *handle, const dcpy_which *which, PyObject *loader, int64_t timeout_ns, int as_views);

#endif
