#include "handle.h"

#include <string.h>

#include "arguments.h"
#include "gather.h"
#include "keys.h"
#include "plan.h"
#include "store.h"
#include "view.h"

#define DCPY_NOT_DROPPABLE "samples can be removed from a droppable cache only: open it with droppable=True"
#define DCPY_NOT_KEYED "samples have keys in a keyed cache only: open it with keyed=True"
#define DCPY_READ_ONLY "the cache was attached with read_only=True: nothing in it can be changed"

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

void dcpy_handle_opened(dcpy_handle *handle) {
  dc_cache_info info = {.struct_size = sizeof info};
  if (!handle->cache || dc_cache_info_get(handle->cache, &info) != DC_OK) return;
  handle->length = info.length;
  handle->keyed = info.keyed != 0;
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

/* What DC_ERROR_UNSUPPORTED means for a handle. */
static const char *why_unsupported(dcpy_handle *handle) {
  dc_cache_info info = {.struct_size = sizeof info};
  return dc_cache_info_get(handle->cache, &info) == DC_OK && info.read_only ? DCPY_READ_ONLY : DCPY_NOT_DROPPABLE;
}

/* Raises what a status says of the sample of a key, and returns NULL. */
static PyObject *fail_key(int32_t status, PyObject *key) {
  PyObject *text = status == DC_MISS ? PyUnicode_FromFormat("the sample of the key %R is not in the cache", key)
                                     : PyUnicode_FromFormat("key %R: %s", key, dc_strerror(status));
  if (text) dcpy_fail(status, PyUnicode_AsUTF8AndSize(text, NULL));
  Py_XDECREF(text);
  return NULL;
}

PyObject *dcpy_handle_fail(dcpy_handle *handle, int32_t status, const dcpy_which *which) {
  if (status == DC_ERROR_UNSUPPORTED) return dcpy_fail(status, why_unsupported(handle));
  if (which->key) return fail_key(status, which->key);
  const int64_t index = which->index;
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

/* A sample's number; any integer object, as for lists, but no bool, which is a mistake here. 0, or -1 with an
 * exception. */
static int index_of(PyObject *self, PyObject *object, int64_t *index) {
  if (PyBool_Check(object)) {
    PyErr_Format(PyExc_TypeError, "an index is an integer, not %R", object);
    return -1;
  }
  PyObject *number = PyNumber_Index(object);
  if (!number) {
    if ((PyUnicode_Check(object) || PyBytes_Check(object) || PyTuple_Check(object)) &&
        PyErr_ExceptionMatches(PyExc_TypeError))
      PyErr_Format(PyExc_TypeError, "an index is an integer, not %R: " DCPY_NOT_KEYED, object);
    return -1;
  }
  int overflow;
  *index = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow) fail_beyond((dcpy_handle *)self, number);
  Py_DECREF(number);
  return PyErr_Occurred() ? -1 : 0;
}

/* The index of a key; with `intern`, one is given to it if it has none. DC_OK, DC_MISS, DC_FULL, or -1 with an
 * exception. */
static int32_t index_of_key(dcpy_handle *handle, PyObject *object, int intern, int64_t *index) {
  dcpy_key key;
  if (dcpy_key_encode(object, &key) != 0) return -1;
  if (!handle->cache) {
    closed(handle);
    dcpy_key_clear(&key);
    return -1;
  }
  int32_t status = dc_cache_lookup(handle->cache, key.bytes, key.size, index);
  if (status == DC_MISS && intern) status = dc_cache_intern(handle->cache, key.bytes, key.size, index);
  dcpy_key_clear(&key);
  if (status >= 0) return status;
  fail_key(status, object);
  return -1;
}

/* The sample that the caller names by its index or, in a keyed cache, by its key. Results as those of index_of_key. */
static int32_t which_of(PyObject *self, PyObject *object, int intern, dcpy_which *which) {
  dcpy_handle *handle = (dcpy_handle *)self;
  which->key = handle->keyed ? object : NULL;
  if (handle->keyed) return index_of_key(handle, object, intern, &which->index);
  return index_of(self, object, &which->index) == 0 ? DC_OK : -1;
}

/* Looks at the sample of an index or a key: DC_OK, DC_MISS, or -1 with an exception. */
static int32_t look(PyObject *self, PyObject *object, dc_view *view) {
  dcpy_handle *handle = (dcpy_handle *)self;
  dcpy_which which = {0, NULL};
  int32_t status;
  if (!handle->keyed) {
    if (index_of(self, object, &which.index) != 0) return -1;
    if (!handle->cache) {
      closed(handle);
      return -1;
    }
    status = dc_cache_view(handle->cache, which.index, view);
  } else {
    dcpy_key key;
    if (dcpy_key_encode(object, &key) != 0) return -1;
    which.key = object;
    status = handle->cache ? dc_cache_view_key(handle->cache, key.bytes, key.size, view) : -1;
    dcpy_key_clear(&key);
    if (!handle->cache) {
      closed(handle);
      return -1;
    }
  }
  if (status >= 0) return status;
  dcpy_handle_fail(handle, status, &which);
  return -1;
}

/* The sample, or NULL: with an exception, or without one where it is a miss. */
static PyObject *find(PyObject *self, PyObject *object, int as_views) {
  dc_view view;
  return look(self, object, &view) == DC_OK ? dcpy_sample_new(&view, as_views) : NULL;
}

static PyObject *handle_get(PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *names) {
  static const dcpy_signature signature = {"get", {"index", "default", "view"}, 3, 2, 1};
  PyObject *values[3] = {NULL};
  if (dcpy_parse(&signature, args, given, names, values) != 0) return NULL;
  int as_views = dcpy_truth_of(values[2]);
  if (as_views < 0) return NULL;
  PyObject *sample = find(self, values[0], as_views);
  if (sample || PyErr_Occurred()) return sample;
  return Py_NewRef(values[1] ? values[1] : Py_None);
}

static PyObject *handle_subscript(PyObject *self, PyObject *key) {
  PyObject *sample = find(self, key, 0);
  if (sample || PyErr_Occurred()) return sample;
  dcpy_handle *handle = (dcpy_handle *)self;
  dcpy_which which = {0, handle->keyed ? key : NULL};
  return which.key || index_of(self, key, &which.index) == 0 ? dcpy_handle_fail(handle, DC_MISS, &which) : NULL;
}

static PyObject *load(dcpy_handle *handle, const dcpy_which *which, PyObject *loader, int64_t timeout_ns,
                      int as_views) {
  /* Asked first, since it keeps the GIL and counts nothing: dc_cache_load counts the miss. */
  int32_t status = handle->cache ? dc_cache_contains(handle->cache, which->index) : DC_MISS;
  if (status != DC_MISS) {
    dc_view view;
    status = dc_cache_view(handle->cache, which->index, &view);
    if (status == DC_OK) return dcpy_sample_new(&view, as_views);
    if (status != DC_MISS) return dcpy_handle_fail(handle, status, which);
  }
  if (!dcpy_handle_enter((PyObject *)handle)) return NULL;
  PyObject *sample = dcpy_load(handle, which, loader, timeout_ns, as_views);
  dcpy_handle_leave(handle);
  return sample;
}

static PyObject *handle_get_or_load(PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *names) {
  static const dcpy_signature signature = {"get_or_load", {"index", "loader", "timeout", "view"}, 4, 3, 2};
  PyObject *values[4] = {NULL};
  dcpy_which which;
  if (dcpy_parse(&signature, args, given, names, values) != 0) return NULL;
  int32_t status = which_of(self, values[0], 1, &which);
  if (status < 0) return NULL;
  if (!PyCallable_Check(values[1]))
    return PyErr_Format(PyExc_TypeError, "a loader is called with the index or key, but %R cannot be called",
                        values[1]);
  int64_t timeout_ns = dcpy_timeout_of(values[2], 60 * INT64_C(1000000000));
  int as_views = dcpy_truth_of(values[3]);
  if (timeout_ns < 0 || as_views < 0) return NULL;
  /* A key without an index cannot be cached. */
  if (status == DC_FULL) return dcpy_call_loader(values[1], &which);
  return load((dcpy_handle *)self, &which, values[1], timeout_ns, as_views);
}

/* The status of dcpy_store, or -1 with an exception. */
static int32_t store(PyObject *self, PyObject *key, PyObject *sample) {
  dcpy_which which;
  int32_t status = which_of(self, key, 1, &which);
  if (status != DC_OK) return status;
  dcpy_handle *handle = dcpy_handle_enter(self);
  if (!handle) return -1;
  status = dcpy_store(handle, &which, sample);
  dcpy_handle_leave(handle);
  return status;
}

static PyObject *handle_put(PyObject *self, PyObject *const *args, Py_ssize_t given, PyObject *names) {
  static const dcpy_signature signature = {"put", {"index", "sample"}, 2, 2, 2};
  PyObject *values[2] = {NULL};
  if (dcpy_parse(&signature, args, given, names, values) != 0) return NULL;
  int32_t status = store(self, values[0], values[1]);
  return status < 0 ? NULL : PyBool_FromLong(status == DC_OK);
}

/* 0, or -1 with an exception. */
static int drop(PyObject *self, PyObject *key) {
  dcpy_which which;
  int32_t status = which_of(self, key, 0, &which);
  if (status < 0) return -1;
  dcpy_handle *handle = (dcpy_handle *)self;
  if (!handle->cache) {
    closed(handle);
    return -1;
  }
  if (status == DC_OK) status = dc_cache_remove(handle->cache, which.index);
  if (status == DC_OK) return 0;
  dcpy_handle_fail(handle, status, &which);
  return -1;
}

static int handle_assign(PyObject *self, PyObject *key, PyObject *sample) {
  if (!sample) return drop(self, key);
  int32_t status = store(self, key, sample);
  if (status <= 0) return status;
  dcpy_which which;
  if (which_of(self, key, 0, &which) >= 0) dcpy_handle_fail((dcpy_handle *)self, status, &which);
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
  const dcpy_which which = {index, NULL};
  return status == DC_OK ? array_of(&view, number) : dcpy_handle_fail(handle, status, &which);
}

static int handle_contains(PyObject *self, PyObject *key) {
  dcpy_handle *handle = (dcpy_handle *)self;
  dcpy_which which;
  int32_t status = which_of(self, key, 0, &which);
  if (status == DC_MISS) return 0;
  if (status < 0) {
    if (handle->keyed || !PyErr_ExceptionMatches(PyExc_IndexError)) return -1;
    PyErr_Clear();
    return 0;
  }
  if (!handle->cache) {
    closed(handle);
    return -1;
  }
  status = dc_cache_contains(handle->cache, which.index);
  if (status == DC_OK) return 1;
  if (status == DC_MISS || status == DC_ERROR_RANGE) return 0;
  dcpy_handle_fail(handle, status, &which);
  return -1;
}

static int must_be_keyed(dcpy_handle *handle) {
  if (handle->keyed) return 0;
  if (handle->cache)
    dcpy_fail(DC_ERROR_UNSUPPORTED, DCPY_NOT_KEYED);
  else
    closed(handle);
  return -1;
}

static PyObject *handle_intern(PyObject *self, PyObject *key) {
  dcpy_handle *handle = (dcpy_handle *)self;
  int64_t index;
  if (must_be_keyed(handle) != 0) return NULL;
  int32_t status = index_of_key(handle, key, 1, &index);
  if (status == DC_OK) return PyLong_FromLongLong(index);
  return status == DC_FULL ? fail_key(status, key) : NULL;
}

static PyObject *handle_lookup(PyObject *self, PyObject *key) {
  dcpy_handle *handle = (dcpy_handle *)self;
  int64_t index;
  if (must_be_keyed(handle) != 0) return NULL;
  int32_t status = index_of_key(handle, key, 0, &index);
  if (status == DC_OK) return PyLong_FromLongLong(index);
  if (status < 0) return NULL;
  Py_RETURN_NONE;
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

static PyObject *handle_keyed(PyObject *self, void *unused) {
  (void)unused;
  return PyBool_FromLong(((dcpy_handle *)self)->keyed);
}

static PyObject *handle_closed(PyObject *self, void *unused) {
  (void)unused;
  return PyBool_FromLong(((dcpy_handle *)self)->cache == NULL);
}

static void handle_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  /* Where a fill that `_swig` began is still open, this is refused: the fill needs the dc_cache, which then stays until
   * the process ends. */
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
    {"intern", handle_intern, METH_O,
     "intern($self, key, /)\n--\n\n"
     "The index of a key in a keyed cache, given to it now if it has none: the same in every process, for as long as "
     "the\n"
     "cache exists. Never blocks.\n\n"
     "Raises FullError where `len` other keys have taken all indices, TypeError for what is no key, UnsupportedError "
     "in "
     "a\n"
     "cache that is not keyed."},
    {"lookup", handle_lookup, METH_O,
     "lookup($self, key, /)\n--\n\n"
     "The index of a key in a keyed cache, or None where it has none. Changes nothing, never blocks. Raises as "
     "intern."},
    {"_gather_alike", dcpy_gather_alike, METH_VARARGS,
     "_gather_alike($self, indices, parts, layouts, arrays, structure, threads, /)\n--\n\n"
     "Copies a batch as dc_cache_gather, if each sample is in the cache, has that many arrays and that hash of its\n"
     "structure, and its arrays are laid out as `layouts` has it for each part: shape, number of dimensions and dtype\n"
     "of its dc_array. Returns whether all were copied."},
    {"_array", handle_array, METH_VARARGS,
     "_array($self, index, number, /)\n--\n\nOne array of a sample, whatever its structure: a read-only view."},
    {"close", handle_close, METH_NOARGS,
     "close($self, /)\n--\n\n"
     "Ends this process's use of the cache; closing twice is allowed. The last client of a cache without `keep` "
     "removes it.\n"
     "Samples that were read stay valid. Blocks for up to 0.1 s.\n\n"
     "Raises StateError, with nothing done, while another thread or a loader is inside a call."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef handle_properties[] = {{"keyed", handle_keyed, NULL, "Whether samples have keys.", NULL},
                                          {"closed", handle_closed, NULL, "Whether the cache has been closed.", NULL},
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
  if (PyModule_AddStringConstant(module, "READ_ONLY", DCPY_READ_ONLY) != 0) return -1;
  static const char *const plans[] = DCPY_PLAN_NAMES;
  for (size_t i = 0; i < sizeof plans / sizeof *plans; ++i)
    if (PyModule_AddIntConstant(module, plans[i], (long)i) != 0) return -1;
  dcpy.handle_type = (PyTypeObject *)PyType_FromSpec(&handle_spec);
  return dcpy.handle_type ? PyModule_AddObjectRef(module, "Handle", (PyObject *)dcpy.handle_type) : -1;
}
