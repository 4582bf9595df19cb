#include "view.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct dcpy_hold {
  atomic_int shares;
  dc_view view;
};

dcpy_hold *dcpy_hold_new(dc_view *view) {
  dcpy_hold *hold = malloc(sizeof *hold);
  if (!hold) {
    dc_cache_view_release(view);
    PyErr_NoMemory();
    return NULL;
  }
  atomic_init(&hold->shares, 1);
  hold->view = *view;
  return hold;
}

/* Relaxed: the caller has a share already, so the hold cannot go meanwhile. */
void dcpy_hold_share(dcpy_hold *hold) { atomic_fetch_add_explicit(&hold->shares, 1, memory_order_relaxed); }

/* Release and acquire: all reads of the memory come before its end, whichever thread ends it. */
void dcpy_hold_drop(dcpy_hold *hold) {
  if (atomic_fetch_sub_explicit(&hold->shares, 1, memory_order_acq_rel) != 1) return;
  dc_cache_view_release(&hold->view);
  free(hold);
}

const dc_view *dcpy_hold_view(const dcpy_hold *hold) { return &hold->view; }

/* The buffer under an ndarray: plain bytes, read only. */
typedef struct dcpy_view {
  PyObject_HEAD dcpy_hold *hold;
  const uint8_t *data;
  Py_ssize_t bytes;
} dcpy_view;

static PyObject *view_new(dcpy_hold *hold, const dc_array *array) {
  dcpy_view *view = PyObject_New(dcpy_view, dcpy.view_type);
  if (!view) return NULL;
  dcpy_hold_share(hold);
  view->hold = hold;
  view->data = array->data;
  view->bytes = (Py_ssize_t)array->bytes;
  return (PyObject *)view;
}

static void view_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  dcpy_hold_drop(((dcpy_view *)self)->hold);
  PyObject_Free(self);
  Py_DECREF(type);
}

static int view_getbuffer(PyObject *self, Py_buffer *buffer, int flags) {
  dcpy_view *view = (dcpy_view *)self;
  return PyBuffer_FillInfo(buffer, self, (void *)view->data, view->bytes, 1, flags);
}

static Py_ssize_t view_length(PyObject *self) { return ((dcpy_view *)self)->bytes; }

static PyType_Slot view_slots[] = {
    {Py_tp_doc, "Read-only memory of one array of a cached sample. It stays valid for as long as this object lives."},
    {Py_tp_dealloc, view_dealloc},
    {Py_bf_getbuffer, view_getbuffer},
    {Py_sq_length, view_length},
    {0, NULL}};
static PyType_Spec view_spec = {"ddpcache.View", sizeof(dcpy_view), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, view_slots};

/* DLPack's type codes. */
enum { CODE_INT = 0, CODE_UINT = 1, CODE_FLOAT = 2, CODE_COMPLEX = 5, CODE_BOOL = 6, CODES = 7, WIDTHS = 5 };

/* numpy.dtype objects by code and log2 of the bytes; NULL where NumPy has none. */
static PyObject *dtypes[CODES][WIDTHS];

static const struct {
  int code, width;
  const char *name;
} dtype_names[] = {
    {CODE_INT, 0, "int8"},          {CODE_INT, 1, "int16"},          {CODE_INT, 2, "int32"},
    {CODE_INT, 3, "int64"},         {CODE_UINT, 0, "uint8"},         {CODE_UINT, 1, "uint16"},
    {CODE_UINT, 2, "uint32"},       {CODE_UINT, 3, "uint64"},        {CODE_FLOAT, 1, "float16"},
    {CODE_FLOAT, 2, "float32"},     {CODE_FLOAT, 3, "float64"},      {CODE_FLOAT, 4, "longdouble"},
    {CODE_COMPLEX, 3, "complex64"}, {CODE_COMPLEX, 4, "complex128"}, {CODE_BOOL, 0, "bool"},
};

static int load_dtypes(void) {
  PyObject *numpy = PyImport_ImportModule("numpy");
  if (!numpy) return -1;
  dcpy.ndarray = PyObject_GetAttrString(numpy, "ndarray");
  int failed = !dcpy.ndarray;
  for (size_t i = 0; !failed && i < sizeof dtype_names / sizeof *dtype_names; ++i) {
    PyObject *dtype = PyObject_CallMethod(numpy, "dtype", "s", dtype_names[i].name);
    dtypes[dtype_names[i].code][dtype_names[i].width] = dtype;
    failed = !dtype;
  }
  Py_DECREF(numpy);
  return failed ? -1 : 0;
}

/* Borrowed; NULL without an exception where the type is unknown. Types that NumPy lacks, such as bfloat16, are seen as
 * unsigned integers of their width. */
static PyObject *dtype_of(const dc_array *array) {
  int width = 0;
  while (width < WIDTHS && (8 << width) != array->dtype_bits) ++width;
  if (width == WIDTHS) return NULL;
  PyObject *dtype = array->dtype_code < CODES ? dtypes[array->dtype_code][width] : NULL;
  return dtype ? dtype : dtypes[CODE_UINT][width];
}

/* The shape of the sample seen last, since most data sets have one shape: saves making a tuple a hit. By array number,
 * so that an image and its mask do not displace each other. */
enum { REMEMBERED = 4 };
static struct {
  PyObject *shape;
  PyObject *dtype;
  dc_array of;
} remembered[REMEMBERED];

static int same_layout(const dc_array *a, const dc_array *b) {
  return a->dimensions == b->dimensions && a->dtype_code == b->dtype_code && a->dtype_bits == b->dtype_bits &&
         a->dtype_lanes == b->dtype_lanes && memcmp(a->shape, b->shape, a->dimensions * sizeof *a->shape) == 0;
}

static PyObject *shape_of(const dc_array *array) {
  uint32_t lanes = array->dtype_lanes == 1 ? 0 : 1;
  PyObject *shape = PyTuple_New((Py_ssize_t)(array->dimensions + lanes));
  for (uint32_t i = 0; shape && i < array->dimensions + lanes; ++i) {
    PyObject *extent = PyLong_FromLongLong(i < array->dimensions ? array->shape[i] : array->dtype_lanes);
    if (!extent || PyTuple_SetItem(shape, (Py_ssize_t)i, extent) != 0) Py_CLEAR(shape);
  }
  return shape;
}

/* The remembered place that describes this array, or -1 with an exception. */
static int layout_of(uint32_t number, const dc_array *array) {
  int place = (int)(number % REMEMBERED);
  if (remembered[place].shape && same_layout(&remembered[place].of, array)) return place;
  PyObject *dtype = dtype_of(array);
  if (!dtype) {
    PyErr_Format(PyExc_TypeError, "an array of DLPack type code %d with %d bits has no NumPy dtype",
                 (int)array->dtype_code, (int)array->dtype_bits);
    return -1;
  }
  PyObject *shape = shape_of(array);
  if (!shape) return -1;
  PyObject *old = remembered[place].shape;
  remembered[place].shape = shape;
  remembered[place].dtype = dtype;
  remembered[place].of = *array;
  Py_XDECREF(old);
  return place;
}

PyObject *dcpy_ndarray_new(dcpy_hold *hold, uint32_t number, const dc_array *array) {
  int place = layout_of(number, array);
  if (place < 0) return NULL;
  PyObject *view = view_new(hold, array);
  if (!view) return NULL;
  /* numpy.ndarray(shape, dtype, buffer) makes the view its base, and is read only as the view is. The shape is held:
   * another thread may displace it while NumPy runs. */
  PyObject *shape = Py_NewRef(remembered[place].shape);
  PyObject *result = PyObject_CallFunctionObjArgs(dcpy.ndarray, shape, remembered[place].dtype, view, NULL);
  Py_DECREF(shape);
  Py_DECREF(view);
  return result;
}

int dcpy_view_register(PyObject *module) {
  if (load_dtypes() != 0) return -1;
  dcpy.view_type = (PyTypeObject *)PyType_FromSpec(&view_spec);
  return dcpy.view_type ? PyModule_AddObjectRef(module, "View", (PyObject *)dcpy.view_type) : -1;
}
