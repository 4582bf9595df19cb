/* From a record to the sample that was stored: walks the plan of its structure. */
#include <string.h>

#include "plan.h"
#include "view.h"

/* Data sets have few structures; one that has many (keys that differ from sample to sample) must not grow for ever. */
enum { PLANS_MAX = 4096 };

typedef struct dcpy_decoding {
  dcpy_hold *hold;
  int copy_tensors;
} dcpy_decoding;

static PyObject *build(const dcpy_decoding *decoding, PyObject *plan);

static PyObject *unsound(uint32_t number, const char *wanted) {
  char message[160];
  PyOS_snprintf(message, sizeof message, "array %u of the sample is not the %s that its structure says",
                (unsigned)number, wanted);
  return dcpy_fail(DC_ERROR_RECORD, message);
}

static int array_at(const dcpy_decoding *decoding, PyObject *argument, uint32_t *number, dc_array *array) {
  unsigned long value = PyLong_AsUnsignedLong(argument);
  if (PyErr_Occurred()) return -1;
  *number = value > DC_ARRAYS_MAX ? DC_ARRAYS_MAX : (uint32_t)value;
  int32_t status = dc_view_array(dcpy_hold_view(decoding->hold), *number, array);
  if (status == DC_OK) return 0;
  dcpy_fail(DC_ERROR_RECORD, "the structure of the sample names an array that it does not have");
  return -1;
}

static PyObject *build_numpy(const dcpy_decoding *decoding, uint32_t number, const dc_array *array) {
  PyObject *ndarray = dcpy_ndarray_new(decoding->hold, number, array);
  PyObject *key = ndarray ? PyTuple_New(0) : NULL;
  PyObject *scalar = key ? PyObject_GetItem(ndarray, key) : NULL;
  Py_XDECREF(key);
  Py_XDECREF(ndarray);
  return scalar;
}

static PyObject *build_numbers(const dcpy_decoding *decoding, uint32_t number, const dc_array *array) {
  PyObject *ndarray = dcpy_ndarray_new(decoding->hold, number, array);
  PyObject *list = ndarray ? PyObject_CallMethod(ndarray, "tolist", NULL) : NULL;
  Py_XDECREF(ndarray);
  return list;
}

static PyObject *build_packed(const dcpy_decoding *decoding, const dc_array *array) {
  PyObject *plan =
      PyObject_CallFunction(dcpy.plan_of_packed, "y#", (const char *)array->data, (Py_ssize_t)array->bytes);
  PyObject *sample = plan ? build(decoding, plan) : NULL;
  Py_XDECREF(plan);
  return sample;
}

static PyObject *build_leaf(const dcpy_decoding *decoding, long operation, PyObject *argument) {
  uint32_t number;
  dc_array array;
  if (array_at(decoding, argument, &number, &array) != 0) return NULL;
  int64_t integer;
  double real[2];
  switch (operation) {
    case PLAN_NDARRAY: return dcpy_ndarray_new(decoding->hold, number, &array);
    case PLAN_TENSOR: return dcpy_tensor_new(decoding->hold, &array, decoding->copy_tensors);
    case PLAN_INT:
      if (array.bytes != sizeof integer) return unsound(number, "int64");
      memcpy(&integer, array.data, sizeof integer);
      return PyLong_FromLongLong(integer);
    case PLAN_FLOAT:
      if (array.bytes != sizeof *real) return unsound(number, "float64");
      memcpy(real, array.data, sizeof *real);
      return PyFloat_FromDouble(real[0]);
    case PLAN_COMPLEX:
      if (array.bytes != sizeof real) return unsound(number, "complex128");
      memcpy(real, array.data, sizeof real);
      return PyComplex_FromDoubles(real[0], real[1]);
    case PLAN_BOOL:
      if (array.bytes != 1) return unsound(number, "bool");
      return PyBool_FromLong(array.data[0]);
    case PLAN_STR: return PyUnicode_DecodeUTF8((const char *)array.data, (Py_ssize_t)array.bytes, "surrogatepass");
    case PLAN_BYTES: return PyBytes_FromStringAndSize((const char *)array.data, (Py_ssize_t)array.bytes);
    case PLAN_NUMPY: return build_numpy(decoding, number, &array);
    case PLAN_NUMBERS: return build_numbers(decoding, number, &array);
    default: return build_packed(decoding, &array);
  }
}

static PyObject *build_list(const dcpy_decoding *decoding, PyObject *plans) {
  Py_ssize_t count = PyTuple_Size(plans);
  PyObject *list = count < 0 ? NULL : PyList_New(count);
  for (Py_ssize_t i = 0; list && i < count; ++i) {
    PyObject *value = build(decoding, PyTuple_GetItem(plans, i));
    if (!value || PyList_SetItem(list, i, value) != 0) Py_CLEAR(list);
  }
  return list;
}

static PyObject *build_tuple(const dcpy_decoding *decoding, PyObject *plans) {
  Py_ssize_t count = PyTuple_Size(plans);
  PyObject *tuple = count < 0 ? NULL : PyTuple_New(count);
  for (Py_ssize_t i = 0; tuple && i < count; ++i) {
    PyObject *value = build(decoding, PyTuple_GetItem(plans, i));
    if (!value || PyTuple_SetItem(tuple, i, value) != 0) Py_CLEAR(tuple);
  }
  return tuple;
}

static PyObject *build_dict(const dcpy_decoding *decoding, PyObject *plans, PyObject *keys) {
  Py_ssize_t count = PyTuple_Size(plans);
  PyObject *dict = count < 0 ? NULL : PyDict_New();
  for (Py_ssize_t i = 0; dict && i < count; ++i) {
    PyObject *key = PyTuple_GetItem(keys, i);
    PyObject *value = key ? build(decoding, PyTuple_GetItem(plans, i)) : NULL;
    if (!value || PyDict_SetItem(dict, key, value) != 0) Py_CLEAR(dict);
    Py_XDECREF(value);
  }
  return dict;
}

static PyObject *build_call(const dcpy_decoding *decoding, PyObject *plans, PyObject *callable) {
  PyObject *values = callable ? build_list(decoding, plans) : NULL;
  PyObject *result = values ? PyObject_CallFunctionObjArgs(callable, values, NULL) : NULL;
  Py_XDECREF(values);
  return result;
}

static PyObject *build_node(const dcpy_decoding *decoding, PyObject *plan) {
  PyObject *head = PyTuple_GetItem(plan, 0);
  PyObject *argument = head ? PyTuple_GetItem(plan, 1) : NULL;
  if (!argument) return NULL;
  long operation = PyLong_AsLong(head);
  switch (operation) {
    case PLAN_CONSTANT: return Py_NewRef(argument);
    case PLAN_LIST: return build_list(decoding, argument);
    case PLAN_TUPLE: return build_tuple(decoding, argument);
    case PLAN_CALL: return build_call(decoding, argument, PyTuple_GetItem(plan, 2));
    case PLAN_DICT: return build_dict(decoding, argument, PyTuple_GetItem(plan, 2));
    default: return operation == -1 && PyErr_Occurred() ? NULL : build_leaf(decoding, operation, argument);
  }
}

static PyObject *build(const dcpy_decoding *decoding, PyObject *plan) {
  if (Py_EnterRecursiveCall(" while a sample was put together")) return NULL;
  PyObject *result = build_node(decoding, plan);
  Py_LeaveRecursiveCall();
  return result;
}

/* A new reference to the plan of a structure string: remembered, or made by Python and remembered. */
static PyObject *plan_of_structure(const char *structure, uint64_t bytes) {
  PyObject *key = PyBytes_FromStringAndSize(structure, (Py_ssize_t)bytes);
  if (!key) return NULL;
  PyObject *plan = PyDict_GetItemWithError(dcpy.plans, key);
  Py_XINCREF(plan);
  if (!plan && !PyErr_Occurred()) {
    plan = PyObject_CallFunctionObjArgs(dcpy.plan_of_structure, key, NULL);
    if (PyDict_Size(dcpy.plans) >= PLANS_MAX) PyDict_Clear(dcpy.plans);
    if (plan && PyDict_SetItem(dcpy.plans, key, plan) != 0) Py_CLEAR(plan);
  }
  Py_DECREF(key);
  return plan;
}

/* Records that another language stored have names at most. */
static PyObject *plan_of_names(const dc_view *view) {
  PyObject *names = PyTuple_New((Py_ssize_t)view->array_count);
  for (uint32_t i = 0; names && i < view->array_count; ++i) {
    dc_array array;
    int32_t status = dc_view_array(view, i, &array);
    PyObject *name = status == DC_OK ? PyUnicode_DecodeUTF8(array.name, (Py_ssize_t)strlen(array.name), "replace")
                                     : dcpy_fail(status, NULL);
    if (!name || PyTuple_SetItem(names, (Py_ssize_t)i, name) != 0) Py_CLEAR(names);
  }
  PyObject *plan = names ? PyObject_CallFunctionObjArgs(dcpy.plan_of_names, names, NULL) : NULL;
  Py_XDECREF(names);
  return plan;
}

PyObject *dcpy_sample_new(dc_view *taken, int as_views) {
  dcpy_hold *hold = dcpy_hold_new(taken);
  if (!hold) return NULL;
  const dc_view *view = dcpy_hold_view(hold);
  uint64_t structure_bytes = 0;
  const char *structure = dc_view_structure(view, &structure_bytes);
  PyObject *sample = NULL;
  if (!structure && view->array_count == 1) {
    dc_array array;
    int32_t status = dc_view_array(view, 0, &array);
    sample = status == DC_OK ? dcpy_ndarray_new(hold, 0, &array) : dcpy_fail(status, NULL);
  } else {
    dcpy_decoding decoding = {hold, !as_views};
    PyObject *plan = structure ? plan_of_structure(structure, structure_bytes) : plan_of_names(view);
    sample = plan ? build(&decoding, plan) : NULL;
    Py_XDECREF(plan);
  }
  dcpy_hold_drop(hold);
  return sample;
}
