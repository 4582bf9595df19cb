/* The one description of the C interface for bindings: SWIG parses the public headers, and the half of the Python module that
 * `_swig` shows is made from what it sees. The safe layer in bindings/python is written by hand on top of it. */
%module(package="ddpcache") _swig

%{
#include "ddpcache/ddpcache.h"
#include "gather.h"
#include "handle.h"
#include "module.h"
#include "progress.h"
%}

%init %{
  if (dcpy_module_extend(m) != 0) return -1;
%}

%include <stdint.i>
%include <typemaps.i>

/* Two kinds of pointers come back as values after the status. */
%apply int *OUTPUT { int32_t *removed };
%apply unsigned int *OUTPUT { uint32_t *rank };
%apply long *OUTPUT {
  int64_t *size, int64_t *index, int64_t *position, int64_t *epoch, int64_t *removed,
  int64_t *saved };
%apply unsigned long *OUTPUT {
  uint64_t *needed_bytes, uint64_t *capacity_bytes, uint64_t *total_bytes, uint64_t *bytes };

%define DCPY_OPENED(type, name)
%typemap(in, numinputs=0) type **name (type *opened = NULL) "$1 = &opened;"
%typemap(argout) type **name {
  $result = SWIG_AppendOutput($result, SWIG_NewPointerObj(*$1, $*1_descriptor, 0));
}
%enddef
DCPY_OPENED(dc_sampler, sampler)
DCPY_OPENED(dc_permutation, permutation)
DCPY_OPENED(dc_fill, fill)

/* Memory of the caller's, by the buffer protocol. That there is room enough is the caller's to see to, as in C, but for
 * buffers whose length the C function is given. */
%typemap(in) int64_t *indices (Py_buffer memory = {0}) {
  if (PyObject_GetBuffer($input, &memory, PyBUF_CONTIG) != 0) SWIG_fail;
  $1 = memory.buf;
}
%typemap(in) const int64_t *indices (Py_buffer memory = {0}) {
  if (PyObject_GetBuffer($input, &memory, PyBUF_CONTIG_RO) != 0) SWIG_fail;
  $1 = memory.buf;
}
%typemap(in) int32_t *statuses (Py_buffer memory = {0}) {
  if ($input != Py_None && PyObject_GetBuffer($input, &memory, PyBUF_CONTIG) != 0) SWIG_fail;
  $1 = memory.buf;
}
%typemap(in) uint8_t *buffer, uint8_t *bitmap = int64_t *indices;
%typemap(in) dc_array *descriptions, uint32_t *array_counts, uint64_t *structures = int32_t *statuses;
%typemap(in) (const dc_gather *parts, uint32_t part_count) (dcpy_parts taken = {.taken = 0}) {
  Py_ssize_t count = dcpy_parts_take($input, &taken);
  if (count < 0) SWIG_fail;
  $1 = taken.parts;
  $2 = (uint32_t)count;
}
%typemap(freearg) (const dc_gather *parts, uint32_t part_count) "dcpy_parts_release(&taken$argnum);"
%typemap(in) (uint8_t *buffer, uint64_t buffer_bytes) (Py_buffer memory = {0}) {
  if (PyObject_GetBuffer($input, &memory, PyBUF_CONTIG) != 0) SWIG_fail;
  $1 = memory.buf;
  $2 = (uint64_t)memory.len;
}
%typemap(in) (const uint8_t *state, uint64_t state_bytes) (Py_buffer memory = {0}) {
  if (PyObject_GetBuffer($input, &memory, PyBUF_CONTIG_RO) != 0) SWIG_fail;
  $1 = memory.buf;
  $2 = (uint64_t)memory.len;
}
%typemap(in) (const uint8_t *key, uint64_t key_bytes) = (const uint8_t *state, uint64_t state_bytes);
%typemap(freearg) int64_t *indices, const int64_t *indices, int32_t *statuses, uint8_t *buffer, uint8_t *bitmap,
                  dc_array *descriptions, uint32_t *array_counts, uint64_t *structures,
                  (uint8_t *buffer, uint64_t buffer_bytes),
                  (const uint8_t *state, uint64_t state_bytes),
                  (const uint8_t *key, uint64_t key_bytes) "if (memory$argnum.obj) PyBuffer_Release(&memory$argnum);"

/* A Handle stands for the dc_cache that it holds; to open one, an empty Handle is passed in. */
%typemap(in) dc_cache **cache (dcpy_handle *handle = NULL) {
  handle = dcpy_handle_empty($input);
  if (!handle) SWIG_fail;
  $1 = &handle->cache;
}
%typemap(argout) dc_cache **cache "dcpy_handle_opened(handle$argnum);"
%typemap(in) dc_cache *cache (dcpy_handle *handle = NULL) {
  handle = dcpy_handle_enter($input);
  if (!handle) SWIG_fail;
  $1 = handle->cache;
}
%typemap(freearg) dc_cache *cache "dcpy_handle_leave(handle$argnum);"

/* Calls that wait, or whose work grows with the cache, run without the GIL; none of them calls back into Python. Those
 * of a sampler keep it, since a sampler is for one thread at a time. */
%define DCPY_WAITS(function)
%exception function {
  Py_BEGIN_ALLOW_THREADS
  $action
  Py_END_ALLOW_THREADS
}
%enddef
DCPY_WAITS(dc_cache_open)
DCPY_WAITS(dc_cache_attach)
DCPY_WAITS(dc_cache_attach_read_only)
DCPY_WAITS(dc_cache_unlink)
DCPY_WAITS(dc_cache_gc)
DCPY_WAITS(dc_cache_list)
DCPY_WAITS(dc_cache_check)
DCPY_WAITS(dc_cache_remove_batch)
DCPY_WAITS(dc_cache_clear)
DCPY_WAITS(dc_cache_read_batch)
DCPY_WAITS(dc_cache_gather)
DCPY_WAITS(dc_cache_describe_batch)
DCPY_WAITS(dc_cache_load)
DCPY_WAITS(dc_cache_fill_begin)
DCPY_WAITS(dc_cache_fill_allocate)

/* Those that say how far they have come do call back: with the GIL, by the argument of this number. */
%typemap(in) const char *path (PyObject *bytes = NULL) {
  if (!PyUnicode_FSConverter($input, &bytes)) SWIG_fail;
  $1 = PyBytes_AsString(bytes);
}
%typemap(freearg) const char *path "Py_XDECREF(bytes$argnum);"
%typemap(in) (dc_progress progress, void *user) (dcpy_progress hearer) {
  if (dcpy_progress_of($input, &hearer) != 0) SWIG_fail;
  $1 = dcpy_progress_call;
  $2 = &hearer;
}
%define DCPY_REPORTS(function, argument)
%exception function {
  hearer##argument.thread = PyEval_SaveThread();
  $action
  PyEval_RestoreThread(hearer##argument.thread);
  if (PyErr_Occurred()) SWIG_fail;
}
%enddef
DCPY_REPORTS(dc_cache_save, 3)
DCPY_REPORTS(dc_cache_restore, 6)
DCPY_WAITS(dc_saved_info_get)

/* Closing must empty the Handle, so it goes through it. */
%feature("action") dc_cache_close "result = dcpy_handle_close(handle1);"

/* SWIG takes every whole number for an int, and some of ours are larger. */
%typemap(constcode, noblock=1) int {
  SWIG_Python_SetConstant(d, "$symname", PyLong_FromLongLong($value));
}

/* What a binding writes into struct_size. */
%constant unsigned int SIZEOF_CACHE_OPTIONS = sizeof(dc_cache_options);
%constant unsigned int SIZEOF_CACHE_INFO = sizeof(dc_cache_info);
%constant unsigned int SIZEOF_CACHE_STATS = sizeof(dc_cache_stats);
%constant unsigned int SIZEOF_CACHE_REPORT = sizeof(dc_cache_report);
%constant unsigned int SIZEOF_SAVED_INFO = sizeof(dc_saved_info);
%constant unsigned int SIZEOF_SAMPLER_OPTIONS = sizeof(dc_sampler_options);
%constant unsigned int SIZEOF_TOPOLOGY = sizeof(dc_topology);

#define DC_API
%include "ddpcache/base.h"
%include "ddpcache/cache.h"
%include "ddpcache/batch.h"
%include "ddpcache/keys.h"
%include "ddpcache/report.h"
%include "ddpcache/sampler.h"
%include "ddpcache/saving.h"
