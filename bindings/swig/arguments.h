/* Arguments of the calls that are written in C, where PyArg_ParseTupleAndKeywords would take longer than the call. */
#ifndef DDPCACHE_SWIG_ARGUMENTS_H
#define DDPCACHE_SWIG_ARGUMENTS_H

#include "module.h"

/* What a call takes: up to `positional` arguments by place, all of them by name, the first `required` at least. */
typedef struct dcpy_signature {
  const char *function;
  const char *names[4];
  Py_ssize_t count, positional, required;
} dcpy_signature;

/* Puts each argument in its place in `values`, which are NULL before. 0, or -1 with an exception. */
int dcpy_parse(const dcpy_signature *signature, PyObject *const *args, Py_ssize_t given, PyObject *names,
               PyObject **values);

/* Whether an object is true, NULL is not; -1 with an exception. */
int dcpy_truth_of(PyObject *object);

/* Seconds to nanoseconds; None is `none_ns`; infinity is for ever. -1 with an exception. */
int64_t dcpy_timeout_of(PyObject *object, int64_t none_ns);

#endif
