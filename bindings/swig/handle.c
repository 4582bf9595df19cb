#include "handle.h"

#include <math.h>
#include <string.h>

#include "plan.h"
#include "store.h"
#include "view.h"

#define DCPY_NOT_DROPPABLE "samples can be removed from a droppable cache only: open it with droppable=True"

static dcpy_handle *handle_of(PyObject *object) {
  if (PyObject_TypeCheck(object, dcpy.handle_type)) return (dcpy_handle *)object;
  PyErr_SetString(PyExc_TypeError, "a ddpcache.Cache is needed here");
  return NULL;
}

dcpy_handle *dcpy_handle_empty(PyObject *object) {
  dcpy_handle *handle = handle_of(object);
  if (!handle || !handle->cache) return handle;
  return (dcpy_handle *)dcpy_fail(DC_ERROR_STATE, "the cache is open already");
}

/* Raises that the cache is closed, and returns NULL. Its name is ddpcache.Cache's. */
static dcpy_handle *closed(dcpy_handle *handle) {
  PyObject *name = PyObject_GetAttrString((PyObject *)handle, "_name");
  PyObject *text = name ? PyUnicode_FromFormat("the cache %R is closed", name) : NULL;
  Py_XDECREF(name);
  PyErr_Clear();
  dcpy_fail(DC_ERROR_STATE, text ? PyUnicode_AsUTF8AndSize(text, NULL) : "the cache is closed");
  Py_XDECREF(text);
  return NULL;
}

dcpy_handle *dcpy_handle_enter(PyObject *object) {
  dcpy_handle *handle = handle_of(object);
  if (!handle) return NULL;
  if (!handle->cache) return closed(handle);
  ++handle->active;
  return handle;
}

void dcpy_handle_leave(dcpy_handle *handle) {
  if (handle) --handle->active;
}

int32_t dcpy_handle_close(dcpy_handle *handle) {
  if (handle->active > 1) return DC_ERROR_STATE;
  dc_cache *cache = handle->cache;
  handle->cache = NULL;
  PyThreadState *thread = PyEval_SaveThread();
  int32_t status = dc_cache_close(cache);
  PyEval_RestoreThread(thread);
  if (status == DC_ERROR_STATE) handle->cache = cache;
  return status;
}

/* -1 with an exception. */
static int64_t length_of(dcpy_handle *handle) {
  if (handle->length) return handle->length;
  if (!handle->cache) {
    closed(handle);
    return -1;
  }
  dc_cache_info info = {.struct_size = sizeof info};
  int32_t status = dc_cache_info_get(handle->cache, &info);
  if (status != DC_OK) {
    dcpy_fail(status, NULL);
    return -1;
  }
  return handle->length = info.length;
}

PyObject *dcpy_handle_fail(dcpy_handle *handle, int32_t status, int64_t index) {
  char message[256];
  if (status == DC_ERROR_RANGE) {
    int64_t length = length_of(handle);
    if (length < 0) return NULL;
    PyOS_snprintf(message, sizeof message, "index %lld is not in 0..%lld", (long long)index, (long long)length - 1);
  } else {
    PyOS_snprintf(message, sizeof message, "index %lld: %s", (long long)index, dc_strerror(status));
  }
  return dcpy_fail(status, message);
}

static void fail_beyond(dcpy_handle *handle, PyObject *number) {
  int64_t length = length_of(handle);
  if (length < 0) return;
  PyObject *text = PyUnicode_FromFormat("index %S is not in 0..%lld", number, (long long)length - 1);
  if (text) dcpy_fail(DC_ERROR_RANGE, PyUnicode_AsUTF8AndSize(text, NULL));
  Py_XDECREF(text);
}

/* A sample's number; any integer object, as for lists, but no bool, which is a mistake here. 0, or -1 with an exception. */
static int index_of(PyObject *self, PyObject *object, int64_t *index) {
  if (PyBool_Check(object)) {
    PyErr_Format(PyExc_TypeError, "an index is an integer, not %R", object);
    return -1;
  }
  PyObject *number = PyNumber_Index(object);
  if (!number) return -1;
  int overflow;
  *index = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow) fail_beyond((dcpy_handle *)self, number);
  Py_DECREF(number);
  return PyErr_Occurred() ? -1 : 0;
}

/* Arguments of a call: up to `positional` by place, all of them by name. */
typedef struct dcpy_signature {
  const char *function;
  const char *names[4];
  Py_ssize_t count, positional, required;
} dcpy_signature;

static int parse_names(const dcpy_signature *signature, PyObject *const *args, Py_ssize_t given, PyObject *names,
                       PyObject **values) {
  for (Py_ssize_t k = 0; k < PyTuple_Size(names); ++k) {
    PyObject *name = PyTuple_GetItem(names, k);
    Py_ssize_t i = 0;
    while (i < signature->count && PyUnicode_CompareWithASCIIString(name, signature->names[i]) != 0) ++i;
    if (i == signature->count || values[i]) {
      PyErr_Format(PyExc_TypeError, "%s() got %s argument '%U'", signature->function,
                   i == signature->count ? "an unexpected keyword" : "two values for", name);
      return -1;
    }
    values[i] = args[given + k];
  }
  return 0;
}

static int parse(const dcpy_signature *signature, PyObject *const *args, Py_ssize_t given, PyObject *names,
                 PyObject **values) {
  if (given > signature->positional) {
    PyErr_Format(PyExc_TypeError, "%s() takes up to %zd positional arguments but %zd were given", signature->function,
                 signature->positional, given);
    return -1;
  }
  for (Py_ssize_t i = 0; i < given; ++i) values[i] = args[i];
  if (names && parse_names(signature, args, given, names, values) != 0) return -1;
  for (Py_ssize_t i = 0; i < signature->required; ++i)
    if (!values[i]) {
      PyErr_Format(PyExc_TypeError, "%s() lacks the argument '%s'", signature->function, signature->names[i]);
      return -1;
    }
  return 0;
}

/* The sample, or NULL: with an exception, or without one where it is a miss. */
static PyObject *find(dcpy_handle *handle, int64_t index, int as_views) {
  if (!handle->cache) {
    closed(handle);
    return NULL;
  }
  dc_view view;
  int32_t status = dc_cache_view(handle->cache, index, &view);
  if (status == DC_OK) return dcpy_sample_new(&view, as_views);
  return status == DC_MISS ? NULL : dcpy_handle_fail(handle, status, index);
}

static int truth_of(PyObject *object) { return object ? PyObject_IsTrue(object) : 0; }

static PyObject *handle_get(PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *names) {
  static const dcpy_signature signature = {"get", {"index", "default", "view"}, 3, 2, 1};
  PyObject *values[3] = {NULL};
  int64_t index;
  if (parse(&signature, args, given, names, values) != 0 || index_of(self, values[0], &index) != 0) return NULL;
  int as_views = truth_of(values[2]);
  if (as_views < 0) return NULL;
  PyObject *sample = find((dcpy_handle *)self, index, as_views);
  if (sample || PyErr_Occurred()) return sample;
  return Py_NewRef(values[1] ? values[1] : Py_None);
}

static PyObject *handle_subscript(PyObject *self, PyObject *key) {
  int64_t index;
  if (index_of(self, key, &index) != 0) return NULL;
  PyObject *sample = find((dcpy_handle *)self, index, 0);
  return sample || PyErr_Occurred() ? sample : dcpy_handle_fail((dcpy_handle *)self, DC_MISS, index);
}

/* Seconds to nanoseconds; None is `none_ns`; infinity is for ever. -1 with an exception. */
static int64_t timeout_of(PyObject *object, int64_t none_ns) {
  if (!object || object == Py_None) return none_ns;
  double seconds = PyFloat_AsDouble(object);
  if (seconds == -1.0 && PyErr_Occurred()) return -1;
  if (!(seconds >= 0)) {
    PyErr_Format(PyExc_ValueError, "a timeout is a number of seconds from 0 on, not %R", object);
    return -1;
  }
  return seconds < 9e9 ? (int64_t)(seconds * 1e9) : INT64_MAX;
}

static PyObject *load(dcpy_handle *handle, int64_t index, PyObject *loader, int64_t timeout_ns, int as_views) {
  /* Asked first, since it keeps the GIL and counts nothing: dc_cache_load counts the miss. */
  int32_t status = handle->cache ? dc_cache_contains(handle->cache, index) : DC_MISS;
  if (status != DC_MISS) {
    PyObject *sample = find(handle, index, as_views);
    if (sample || PyErr_Occurred()) return sample;
  }
  if (!dcpy_handle_enter((PyObject *)handle)) return NULL;
  PyObject *sample = dcpy_load(handle, index, loader, timeout_ns, as_views);
  dcpy_handle_leave(handle);
  return sample;
}

static PyObject *handle_get_or_load(PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *names) {
  static const dcpy_signature signature = {"get_or_load", {"index", "loader", "timeout", "view"}, 4, 3, 2};
  PyObject *values[4] = {NULL};
  int64_t index;
  if (parse(&signature, args, given, names, values) != 0 || index_of(self, values[0], &index) != 0) return NULL;
  if (!PyCallable_Check(values[1]))
    return PyErr_Format(PyExc_TypeError, "a loader is called with the index, but %R cannot be called", values[1]);
  int64_t timeout_ns = timeout_of(values[2], 60 * INT64_C(1000000000));
  int as_views = truth_of(values[3]);
  if (timeout_ns < 0 || as_views < 0) return NULL;
  return load((dcpy_handle *)self, index, values[1], timeout_ns, as_views);
}

/* A status of dcpy_store, or -1 with an exception. */
static int32_t store(PyObject *self, PyObject *key, PyObject *sample) {
  int64_t index;
  if (index_of(self, key, &index) != 0) return -1;
  dcpy_handle *handle = dcpy_handle_enter(self);
  if (!handle) return -1;
  int32_t status = dcpy_store(handle, index, sample);
  dcpy_handle_leave(handle);
  return status;
}

static PyObject *handle_put(PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *names) {
  static const dcpy_signature signature = {"put", {"index", "sample"}, 2, 2, 2};
  PyObject *values[2] = {NULL};
  if (parse(&signature, args, given, names, values) != 0) return NULL;
  int32_t status = store(self, values[0], values[1]);
  return status < 0 ? NULL : PyBool_FromLong(status == DC_OK);
}

/* 0, or -1 with an exception. */
static int drop(PyObject *self, PyObject *key) {
  int64_t index;
  if (index_of(self, key, &index) != 0) return -1;
  dcpy_handle *handle = (dcpy_handle *)self;
  if (!handle->cache) {
    closed(handle);
    return -1;
  }
  int32_t status = dc_cache_remove(handle->cache, index);
  if (status == DC_OK) return 0;
  if (status == DC_ERROR_UNSUPPORTED)
    dcpy_fail(status, DCPY_NOT_DROPPABLE);
  else
    dcpy_handle_fail(handle, status, index);
  return -1;
}

static int handle_assign(PyObject *self, PyObject *key, PyObject *sample) {
  if (!sample) return drop(self, key);
  int32_t status = store(self, key, sample);
  if (status <= 0) return status;
  int64_t index;
  if (index_of(self, key, &index) == 0) dcpy_handle_fail((dcpy_handle *)self, status, index);
  return -1;
}

static PyObject *array_of(dc_view *taken, uint32_t number) {
  dcpy_hold *hold = dcpy_hold_new(taken);
  if (!hold) return NULL;
  dc_array array;
  int32_t status = dc_view_array(dcpy_hold_view(hold), number, &array);
  PyObject *ndarray = status == DC_OK ? dcpy_ndarray_new(hold, number, &array) : NULL;
  if (status == DC_ERROR_RANGE) {
    char message[128];
    PyOS_snprintf(message, sizeof message, "index %lld: the sample has no array %u: it has %u",
                  (long long)dcpy_hold_view(hold)->index, (unsigned)number,
                  (unsigned)dcpy_hold_view(hold)->array_count);
    dcpy_fail(DC_ERROR_RECORD, message);
  } else if (status != DC_OK) {
    dcpy_fail(status, NULL);
  }
  dcpy_hold_drop(hold);
  return ndarray;
}

static PyObject *handle_array(PyObject *self, PyObject *args) {
  dcpy_handle *handle = (dcpy_handle *)self;
  PyObject *key;
  unsigned int number;
  int64_t index;
  if (!PyArg_ParseTuple(args, "OI:_array", &key, &number) || index_of(self, key, &index) != 0) return NULL;
  if (!handle->cache) return (PyObject *)closed(handle);
  dc_view view;
  int32_t status = dc_cache_view(handle->cache, index, &view);
  return status == DC_OK ? array_of(&view, number) : dcpy_handle_fail(handle, status, index);
}

static int handle_contains(PyObject *self, PyObject *key) {
  dcpy_handle *handle = (dcpy_handle *)self;
  int64_t index;
  if (index_of(self, key, &index) != 0) {
    if (!PyErr_ExceptionMatches(PyExc_IndexError)) return -1;
    PyErr_Clear();
    return 0;
  }
  if (!handle->cache) {
    closed(handle);
    return -1;
  }
  int32_t status = dc_cache_contains(handle->cache, index);
  if (status == DC_OK) return 1;
  if (status == DC_MISS || status == DC_ERROR_RANGE) return 0;
  dcpy_handle_fail(handle, status, index);
  return -1;
}

static Py_ssize_t handle_length(PyObject *self) { return (Py_ssize_t)length_of((dcpy_handle *)self); }

static PyObject *handle_close(PyObject *self, PyObject *unused) {
  (void)unused;
  if (!((dcpy_handle *)self)->cache) Py_RETURN_NONE;
  dcpy_handle *handle = dcpy_handle_enter(self);
  if (!handle) return NULL;
  int32_t status = dcpy_handle_close(handle);
  dcpy_handle_leave(handle);
  if (status == DC_ERROR_STATE)
    return dcpy_fail(status, "the cache cannot be closed while another thread, or a loader, uses it");
  if (status < 0) return dcpy_fail(status, NULL);
  Py_RETURN_NONE;
}

static PyObject *handle_closed(PyObject *self, void *unused) {
  (void)unused;
  return PyBool_FromLong(((dcpy_handle *)self)->cache == NULL);
}

static void handle_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  /* Where a fill that `raw` began is still open, this is refused: the fill needs the dc_cache, which then stays until the
   * process ends. */
  if (((dcpy_handle *)self)->cache) dcpy_handle_close((dcpy_handle *)self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef handle_methods[] = {
    {"get", FAST(handle_get), METH_FASTCALL | METH_KEYWORDS,
     "get($self, /, index, default=None, *, view=False)\n--\n\n"
     "The sample at an index, or `default` where the cache does not have it. Never blocks.\n\n"
     "NumPy arrays are read-only views of the cache's memory, which stay valid for as long as they live, also after "
     "the\n"
     "cache is closed. Torch tensors are private copies, unless `view` is set: then they lie in the cache's read-only\n"
     "memory, and an in-place operation on one ends the process with a segmentation fault.\n\n"
     "Raises IndexError for an index outside 0..len-1 (negative ones too), TypeError for one that is no integer."},
    {"get_or_load", FAST(handle_get_or_load), METH_FASTCALL | METH_KEYWORDS,
     "get_or_load($self, /, index, loader, timeout=None, *, view=False)\n--\n\n"
     "The sample at an index, decoded by `loader(index)` and stored where it is missing.\n\n"
     "Of all processes that ask for one index at once, one runs its loader and the others wait for it: up to "
     "`timeout`\n"
     "seconds (None: 60), and then decode for themselves, uncached. A sample for which the cache has no room is "
     "returned\n"
     "as the loader made it. The loader's exceptions pass unchanged, and leave the index empty. It may use this cache "
     "and\n"
     "others, but not load the same index (RecursionError). Results are as those of get.\n\n"
     "Raises ValueError for a sample larger than the cache's sample_bytes_max, TypeError for one that cannot be "
     "stored,\n"
     "IndexError for an index outside 0..len-1."},
    {"put", FAST(handle_put), METH_FASTCALL | METH_KEYWORDS,
     "put($self, /, index, sample)\n--\n\n"
     "Stores a sample; True if it did. False, with nothing changed, where the index has its sample already, another\n"
     "client is filling it, or there is no room. Never waits for another client.\n\n"
     "Raises TypeError for a sample that cannot be stored, ValueError for one that is too large, IndexError for an "
     "index\n"
     "outside 0..len-1."},
    {"_array", handle_array, METH_VARARGS,
     "_array($self, index, number, /)\n--\n\nOne array of a sample, whatever its structure: a read-only view."},
    {"close", handle_close, METH_NOARGS,
     "close($self, /)\n--\n\n"
     "Ends this process's use of the cache; closing twice is allowed. The last client of a cache without `keep` "
     "removes it.\n"
     "Samples that were read stay valid. Blocks for up to 0.1 s.\n\n"
     "Raises StateError, with nothing done, while another thread or a loader is inside a call."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef handle_properties[] = {{"closed", handle_closed, NULL, "Whether the cache has been closed.", NULL},
                                          {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot handle_slots[] = {{Py_tp_doc, "An open cache: the part of ddpcache.Cache that is written in C."},
                                     {Py_tp_new, PyType_GenericNew},
                                     {Py_tp_dealloc, handle_dealloc},
                                     {Py_tp_methods, handle_methods},
                                     {Py_tp_getset, handle_properties},
                                     {Py_mp_length, handle_length},
                                     {Py_mp_subscript, handle_subscript},
                                     {Py_mp_ass_subscript, handle_assign},
                                     {Py_sq_contains, handle_contains},
                                     {0, NULL}};
static PyType_Spec handle_spec = {"ddpcache.Handle", sizeof(dcpy_handle), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                  handle_slots};

int dcpy_handle_register(PyObject *module) {
  if (PyModule_AddStringConstant(module, "NOT_DROPPABLE", DCPY_NOT_DROPPABLE) != 0) return -1;
  static const char *const plans[] = DCPY_PLAN_NAMES;
  for (size_t i = 0; i < sizeof plans / sizeof *plans; ++i)
    if (PyModule_AddIntConstant(module, plans[i], (long)i) != 0) return -1;
  dcpy.handle_type = (PyTypeObject *)PyType_FromSpec(&handle_spec);
  return dcpy.handle_type ? PyModule_AddObjectRef(module, "Handle", (PyObject *)dcpy.handle_type) : -1;
}
