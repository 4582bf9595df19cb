/* The parts of a gather as Python gives them. */
#ifndef DDPCACHE_SWIG_GATHER_H
#define DDPCACHE_SWIG_GATHER_H

#include "module.h"

typedef struct dcpy_parts {
  dc_gather parts[DC_ARRAYS_MAX];
  Py_buffer buffers[DC_ARRAYS_MAX], offsets[DC_ARRAYS_MAX];
  Py_ssize_t taken; /* how many hold their memory */
} dcpy_parts;

/* Takes the memory of a list of tuples (number, buffer, sample_bytes, offsets or None). How many, or -1 with an
 * exception. Whether the buffers have room enough is the caller's to see to, as in C. */
Py_ssize_t dcpy_parts_take(PyObject *list, dcpy_parts *parts);
void dcpy_parts_release(dcpy_parts *parts);

/* Handle._gather_alike: see there. */
PyObject *dcpy_gather_alike(PyObject *self, PyObject *args);

#endif
