#include "gather.h"

/* One part; on failure, what it had taken is given back. */
static int take(PyObject *tuple, dc_gather *part, Py_buffer *buffer, Py_buffer *offsets) {
  unsigned int number;
  unsigned long long sample_bytes;
  PyObject *memory, *places;
  if (!PyArg_ParseTuple(tuple, "IOKO:dc_gather", &number, &memory, &sample_bytes, &places)) return -1;
  if (PyObject_GetBuffer(memory, buffer, PyBUF_CONTIG) != 0) return -1;
  if (places != Py_None && PyObject_GetBuffer(places, offsets, PyBUF_CONTIG_RO) != 0) {
    PyBuffer_Release(buffer);
    return -1;
  }
  *part = (dc_gather){.buffer = buffer->buf,
                      .offsets = places == Py_None ? NULL : offsets->buf,
                      .sample_bytes = sample_bytes,
                      .number = number};
  return 0;
}

Py_ssize_t dcpy_parts_take(PyObject *list, dcpy_parts *parts) {
  if (!PyList_Check(list) || PyList_Size(list) > DC_ARRAYS_MAX) {
    PyErr_Format(PyExc_TypeError, "parts are a list of up to %d tuples, not %R", DC_ARRAYS_MAX, list);
    return -1;
  }
  for (Py_ssize_t count = PyList_Size(list); parts->taken < count; ++parts->taken) {
    Py_ssize_t i = parts->taken;
    if (take(PyList_GetItem(list, i), &parts->parts[i], &parts->buffers[i], &parts->offsets[i]) != 0) return -1;
  }
  return parts->taken;
}

void dcpy_parts_release(dcpy_parts *parts) {
  for (Py_ssize_t i = 0; i < parts->taken; ++i) {
    PyBuffer_Release(&parts->buffers[i]);
    if (parts->offsets[i].obj) PyBuffer_Release(&parts->offsets[i]);
  }
}
