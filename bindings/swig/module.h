/* What the hand-written half of the module _ddpcache needs from Python, and how it reports errors. */
#ifndef DDPCACHE_SWIG_MODULE_H
#define DDPCACHE_SWIG_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "ddpcache/ddpcache.h"

/* Set once at import, under the GIL, and never freed: one interpreter per process, as NumPy has it too. */
typedef struct dcpy_globals {
  PyTypeObject *handle_type;
  PyTypeObject *view_type;
  PyObject *ndarray;           /* numpy.ndarray */
  PyObject *flatten;           /* sample -> (arrays, structure): ddpcache._samples.flatten */
  PyObject *plan_of_structure; /* structure bytes -> plan */
  PyObject *plan_of_names;     /* array names -> plan, for records without a structure */
  PyObject *plan_of_packed;    /* packed structure bytes -> plan */
  PyObject *error_of;          /* (status, message) -> exception */
  PyObject *plans;             /* structure bytes -> plan, for the structures seen so far */
} dcpy_globals;

extern dcpy_globals dcpy;

/* Adds the types and functions of the hand-written half. 0, or -1 with a Python exception. */
int dcpy_module_extend(PyObject *module);

/* Raises the Python exception of a status, and returns NULL. `message` NULL: the status's fixed sentence. */
PyObject *dcpy_fail(int32_t status, const char *message);

/* memcpy under the GIL, which is given up meanwhile where the copy is long. */
void dcpy_copy(void *to, const void *from, uint64_t bytes);

#endif
