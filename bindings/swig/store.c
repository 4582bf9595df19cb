#include "store.h"

#include <string.h>
#include <time.h>

#include "view.h"

/* A sample taken apart by ddpcache._samples.flatten: layouts, and buffers to copy from. */
typedef struct dcpy_record {
  dc_array arrays[DC_ARRAYS_MAX];
  Py_buffer sources[DC_ARRAYS_MAX];
  uint32_t count;
  PyObject *flat; /* owns the structure string */
  const char *structure;
} dcpy_record;

static void record_clear(dcpy_record *record) {
  for (uint32_t i = 0; i < record->count; ++i) PyBuffer_Release(&record->sources[i]);
  record->count = 0;
  Py_CLEAR(record->flat);
}

static int parse_array(PyObject *description, dc_array *array, Py_buffer *source) {
  PyObject *buffer, *shape;
  const char *name;
  int code, bits;
  unsigned short lanes = 1;
  if (!PyArg_ParseTuple(description, "OiiO!s|H", &buffer, &code, &bits, &PyTuple_Type, &shape, &name, &lanes))
    return -1;
  Py_ssize_t dimensions = PyTuple_Size(shape);
  if (dimensions > DC_DIMENSIONS_MAX) {
    PyErr_Format(PyExc_ValueError, "an array has %zd dimensions, and a cache holds up to %d", dimensions,
                 DC_DIMENSIONS_MAX);
    return -1;
  }
  if (strlen(name) >= sizeof array->name) {
    PyErr_Format(PyExc_ValueError, "an array's name has %zd bytes, and a cache holds up to %d: %s",
                 (Py_ssize_t)strlen(name), (int)sizeof array->name - 1, name);
    return -1;
  }
  memset(array, 0, sizeof *array);
  array->dimensions = (uint32_t)dimensions;
  for (Py_ssize_t i = 0; i < dimensions; ++i) {
    array->shape[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
    if (array->shape[i] == -1 && PyErr_Occurred()) return -1;
  }
  array->dtype_code = (uint8_t)code;
  array->dtype_bits = (uint8_t)bits;
  array->dtype_lanes = lanes;
  memcpy(array->name, name, strlen(name));
  return PyObject_GetBuffer(buffer, source, PyBUF_CONTIG_RO);
}

/* Calls flatten. 0, or -1 with an exception and nothing to clear. */
static int record_of(PyObject *sample, dcpy_record *record) {
  record->count = 0;
  record->structure = NULL;
  record->flat = PyObject_CallFunctionObjArgs(dcpy.flatten, sample, NULL);
  if (!record->flat) return -1;
  PyObject *descriptions;
  if (!PyArg_ParseTuple(record->flat, "O!z", &PyTuple_Type, &descriptions, &record->structure)) goto fail;
  Py_ssize_t count = PyTuple_Size(descriptions);
  if (count > DC_ARRAYS_MAX) {
    PyErr_Format(PyExc_ValueError, "the sample has %zd arrays, and a cache holds up to %d", count, DC_ARRAYS_MAX);
    goto fail;
  }
  for (; record->count < (uint32_t)count; ++record->count)
    if (parse_array(PyTuple_GetItem(descriptions, (Py_ssize_t)record->count), &record->arrays[record->count],
                    &record->sources[record->count]) != 0)
      goto fail;
  return 0;
fail:
  record_clear(record);
  return -1;
}

/* The library cannot know what the options are called here. */
static void add_remedy(const dcpy_record *record, dc_error *error) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < record->count; ++i) bytes += (uint64_t)record->sources[i].len;
  if (bytes > DC_SAMPLE_BYTES_MAX) return;
  size_t used = strlen(error->message);
  PyOS_snprintf(
      error->message + used, sizeof error->message - used,
      ". Open the cache with a larger sample_bytes_max=, or a larger capacity=, of which it is 1/256 by default");
}

/* Allocates without the GIL, and copies (see dcpy_copy). A status; where it is an error, `error` has its text. */
static int32_t record_write(dcpy_record *record, dc_fill *fill, dc_error *error) {
  PyThreadState *thread = PyEval_SaveThread();
  int32_t status = dc_cache_fill_allocate(fill, record->arrays, record->count, record->structure, error);
  PyEval_RestoreThread(thread);
  if (status == DC_ERROR_TOO_LARGE) add_remedy(record, error);
  if (status != DC_OK) return status;
  for (uint32_t i = 0; i < record->count; ++i) {
    if (record->arrays[i].bytes != (uint64_t)record->sources[i].len) {
      PyOS_snprintf(error->message, sizeof error->message, "array %u has %lld bytes, but its shape and dtype take %llu",
                    (unsigned)i, (long long)record->sources[i].len, (unsigned long long)record->arrays[i].bytes);
      return DC_ERROR_ARGUMENT;
    }
  }
  for (uint32_t i = 0; i < record->count; ++i)
    dcpy_copy(record->arrays[i].data, record->sources[i].buf, record->arrays[i].bytes);
  return DC_OK;
}

int32_t dcpy_store(dcpy_handle *handle, const dcpy_which *which, PyObject *sample) {
  dcpy_record record;
  if (record_of(sample, &record) != 0) return -1;
  dc_error error = {0};
  dc_fill *fill = NULL;
  int32_t status = dc_cache_fill_begin(handle->cache, which->index, 0, &fill);
  if (status == DC_OK) {
    status = record_write(&record, fill, &error);
    if (status == DC_OK)
      status = dc_cache_fill_commit(fill);
    else
      dc_cache_fill_abort(fill);
  }
  record_clear(&record);
  if (status >= 0) return status;
  if (error.message[0])
    dcpy_fail(status, error.message);
  else
    dcpy_handle_fail(handle, status, which);
  return -1;
}

/* What the trampoline and the caller of dc_cache_load tell each other. */
typedef struct dcpy_loading {
  PyObject *loader;
  const dcpy_which *which;
  PyObject *sample; /* what the loader returned */
  PyThreadState *thread;
  dc_error error;
} dcpy_loading;

PyObject *dcpy_call_loader(PyObject *loader, const dcpy_which *which) {
  PyObject *argument = which->key ? Py_NewRef(which->key) : PyLong_FromLongLong(which->index);
  PyObject *sample = argument ? PyObject_CallFunctionObjArgs(loader, argument, NULL) : NULL;
  Py_XDECREF(argument);
  return sample;
}

static int32_t load_sample(dcpy_loading *loading, dc_fill *fill) {
  /* It may run again: what it stored may have been removed before anybody saw it. */
  Py_CLEAR(loading->sample);
  loading->sample = dcpy_call_loader(loading->loader, loading->which);
  if (!loading->sample) return 0;
  dcpy_record record;
  if (record_of(loading->sample, &record) != 0) return 0;
  int32_t status = record_write(&record, fill, &loading->error);
  record_clear(&record);
  return status == DC_OK ? DC_LOADED : 0;
}

/* Runs on the thread that called dc_cache_load. A Python exception stays set and is found there. */
static int32_t trampoline(dc_fill *fill, int64_t index, void *user) {
  (void)index;
  dcpy_loading *loading = user;
  PyEval_RestoreThread(loading->thread);
  int32_t result = load_sample(loading, fill);
  loading->thread = PyEval_SaveThread();
  return result;
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A signal that arrives between two waits of the library interrupts neither, so the wait is cut into parts. */
#define SIGNAL_WAIT_NS (5 * INT64_C(1000000000))

static int32_t load_until(dcpy_handle *handle, dcpy_loading *loading, int64_t timeout_ns, dc_view *view) {
  int64_t began = now_ns();
  for (;;) {
    int64_t part_began = now_ns();
    int64_t left = timeout_ns - (part_began - began);
    int64_t part = left > SIGNAL_WAIT_NS ? SIGNAL_WAIT_NS : left > 0 ? left : 0;
    loading->thread = PyEval_SaveThread();
    int32_t status = dc_cache_load(handle->cache, loading->which->index, trampoline, loading, part, view);
    PyEval_RestoreThread(loading->thread);
    /* A thread with an open fill is told so at once, whatever the time. */
    int part_is_over = status == DC_BUSY && part < left && now_ns() - part_began >= part;
    if (!(part_is_over || status == DC_INTERRUPTED) || PyErr_CheckSignals() != 0) return status;
  }
}

PyObject *dcpy_load(dcpy_handle *handle, const dcpy_which *which, PyObject *loader, int64_t timeout_ns, int as_views) {
  dcpy_loading loading = {.loader = loader, .which = which};
  dc_view view;
  int32_t status = load_until(handle, &loading, timeout_ns, &view);
  if (status == DC_OK) {
    Py_CLEAR(loading.sample);
    return dcpy_sample_new(&view, as_views);
  }
  if (!PyErr_Occurred()) {
    /* What cannot be cached is still given: decoded here, unless the loader has run already. */
    if (status == DC_BUSY || status == DC_FULL || (status == DC_ERROR_LOST && loading.sample))
      return loading.sample ? loading.sample : dcpy_call_loader(loader, which);
    if (status < 0 && loading.error.message[0])
      dcpy_fail(status, loading.error.message);
    else
      dcpy_handle_fail(handle, status, which);
  }
  Py_CLEAR(loading.sample);
  return NULL;
}
