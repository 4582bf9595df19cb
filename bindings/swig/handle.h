/* The type Handle, which ddpcache.Cache extends: a process's dc_cache, and the calls that a training loop makes for
 * every sample. */
#ifndef DDPCACHE_SWIG_HANDLE_H
#define DDPCACHE_SWIG_HANDLE_H

#include "module.h"

typedef struct dcpy_handle {
  PyObject_HEAD dc_cache *cache; /* NULL before opening and after closing */
  Py_ssize_t active;             /* calls under way, some of them without the GIL: close must not happen then */
  int64_t length;                /* of the cache; 0 until asked for */
  int keyed;                     /* its samples have keys */
} dcpy_handle;

/* Borrowed from the argument. NULL with an exception if it is no Handle, or is one that is open already. */
dcpy_handle *dcpy_handle_empty(PyObject *object);

/* Notes what a call that opens has opened, if it has. */
void dcpy_handle_opened(dcpy_handle *handle);

/* Begins and ends a call. NULL with an exception if it is no Handle, or is closed; leave accepts NULL. */
dcpy_handle *dcpy_handle_enter(PyObject *object);
void dcpy_handle_leave(dcpy_handle *handle);

/* Closes the cache of a handle that the caller has entered: DC_ERROR_STATE where another call is under way. */
int32_t dcpy_handle_close(dcpy_handle *handle);

/* The sample that a call is about. */
typedef struct dcpy_which {
  int64_t index;
  PyObject *key; /* by which the caller knows it, borrowed from him; NULL in a cache without keys */
} dcpy_which;

/* Raises the exception of a status that says something about one sample, and returns NULL. */
PyObject *dcpy_handle_fail(dcpy_handle *handle, int32_t status, const dcpy_which *which);

int dcpy_handle_register(PyObject *module);

#endif
