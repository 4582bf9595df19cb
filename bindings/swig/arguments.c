#include "arguments.h"

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

int dcpy_parse(const dcpy_signature *signature, PyObject *const *args, Py_ssize_t given, PyObject *names,
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

int dcpy_truth_of(PyObject *object) { return object ? PyObject_IsTrue(object) : 0; }

int64_t dcpy_timeout_of(PyObject *object, int64_t none_ns) {
  if (!object || object == Py_None) return none_ns;
  double seconds = PyFloat_AsDouble(object);
  if (seconds == -1.0 && PyErr_Occurred()) return -1;
  if (!(seconds >= 0)) {
    PyErr_Format(PyExc_ValueError, "a timeout is a number of seconds from 0 on, not %R", object);
    return -1;
  }
  return seconds < 9e9 ? (int64_t)(seconds * 1e9) : INT64_MAX;
}
