#include "gather.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "handle.h"

/* One part; on failure, what it had taken is given back. */
static int take(PyObject *tuple, dc_gather *part, Py_buffer *buffer, Py_buffer *offsets) {
  unsigned int number;
  unsigned long long sample_bytes;
  PyObject *memory, *places;
  if (!PyArg_ParseTuple(tuple, "IOKO:dc_gather", &number, &memory, &sample_bytes, &places)) return -1;
  if (PyObject_GetBuffer(memory, buffer, PyBUF_CONTIG) != 0) return -1;
  if (places != Py_None && PyObject_GetBuffer(places, offsets, PyBUF_CONTIG_RO) != 0) {
    PyBuffer_Release(buffer);
    return -1;
  }
  *part = (dc_gather){.buffer = buffer->buf,
                      .offsets = places == Py_None ? NULL : offsets->buf,
                      .sample_bytes = sample_bytes,
                      .number = number};
  return 0;
}

Py_ssize_t dcpy_parts_take(PyObject *list, dcpy_parts *parts) {
  if (!PyList_Check(list) || PyList_Size(list) > DC_ARRAYS_MAX) {
    PyErr_Format(PyExc_TypeError, "parts are a list of up to %d tuples, not %R", DC_ARRAYS_MAX, list);
    return -1;
  }
  for (Py_ssize_t count = PyList_Size(list); parts->taken < count; ++parts->taken) {
    Py_ssize_t i = parts->taken;
    if (take(PyList_GetItem(list, i), &parts->parts[i], &parts->buffers[i], &parts->offsets[i]) != 0) return -1;
  }
  return parts->taken;
}

void dcpy_parts_release(dcpy_parts *parts) {
  for (Py_ssize_t i = 0; i < parts->taken; ++i) {
    PyBuffer_Release(&parts->buffers[i]);
    if (parts->offsets[i].obj) PyBuffer_Release(&parts->offsets[i]);
  }
}

/* What of a dc_array says how an array is laid out: shape, number of dimensions and dtype. */
enum { LAYOUT_BEGIN = offsetof(dc_array, shape), LAYOUT_BYTES = offsetof(dc_array, name) - LAYOUT_BEGIN };

/* What all samples of a batch must be. */
typedef struct expectation {
  const char *layouts; /* of each part's array */
  uint64_t structure;
  uint32_t arrays;
} expectation;

static int32_t all_are(dc_cache *cache, const int64_t *indices, int64_t count, const dcpy_parts *parts,
                       const expectation *expected) {
  size_t many = (size_t)count;
  dc_array *arrays = malloc(many * sizeof *arrays);
  uint64_t *structures = malloc(many * sizeof *structures);
  uint32_t *counts = malloc(many * sizeof *counts);
  int32_t status = arrays && structures && counts ? DC_OK : DC_ERROR_NO_MEMORY;
  for (Py_ssize_t k = 0; status == DC_OK && k < parts->taken; ++k) {
    /* A structure is a sample's: it is looked at once. */
    uint64_t *asked = k == 0 ? structures : NULL;
    status = dc_cache_describe_batch(cache, indices, count, parts->parts[k].number, arrays, counts, asked, NULL);
    for (size_t i = 0; status == DC_OK && i < many; ++i) {
      const char *layout = (const char *)&arrays[i] + LAYOUT_BEGIN;
      int same = counts[i] == expected->arrays && structures[i] == expected->structure &&
                 memcmp(layout, expected->layouts + k * LAYOUT_BYTES, LAYOUT_BYTES) == 0;
      if (!same) status = DC_ERROR_RECORD;
    }
  }
  free(arrays);
  free(structures);
  free(counts);
  return status;
}

PyObject *dcpy_gather_alike(PyObject *self, PyObject *args) {
  PyObject *list, *wanted;
  unsigned long long structure;
  Py_ssize_t layout_bytes;
  unsigned int threads;
  expectation expected;
  if (!PyArg_ParseTuple(args, "OOy#IKI:_gather_alike", &wanted, &list, &expected.layouts, &layout_bytes,
                        &expected.arrays, &structure, &threads))
    return NULL;
  expected.structure = structure;
  Py_buffer indices;
  if (PyObject_GetBuffer(wanted, &indices, PyBUF_CONTIG_RO) != 0) return NULL;
  dcpy_parts parts = {.taken = 0};
  dcpy_handle *handle = dcpy_handle_enter(self);
  PyObject *result = NULL;
  if (handle && dcpy_parts_take(list, &parts) >= 0) {
    if (parts.taken * LAYOUT_BYTES != layout_bytes) {
      PyErr_Format(PyExc_ValueError, "%zd bytes are not the layouts of %zd arrays", layout_bytes, parts.taken);
    } else {
      int64_t count = indices.len / (Py_ssize_t)sizeof(int64_t);
      PyThreadState *thread = PyEval_SaveThread();
      int32_t status = all_are(handle->cache, indices.buf, count, &parts, &expected);
      if (status == DC_OK)
        status = dc_cache_gather(handle->cache, indices.buf, count, parts.parts, (uint32_t)parts.taken, NULL, threads);
      PyEval_RestoreThread(thread);
      result = PyBool_FromLong(status == DC_OK);
    }
  }
  dcpy_parts_release(&parts);
  dcpy_handle_leave(handle);
  PyBuffer_Release(&indices);
  return result;
}
