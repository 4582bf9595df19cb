#include "progress.h"

int dcpy_progress_of(PyObject *object, dcpy_progress *progress) {
  progress->callable = object == Py_None ? NULL : object;
  if (object == Py_None || PyCallable_Check(object)) return 0;
  PyErr_Format(PyExc_TypeError, "progress is None or a callable of (done, total), not %R", object);
  return -1;
}

int32_t dcpy_progress_call(uint64_t done, uint64_t total, void *user) {
  dcpy_progress *progress = user;
  PyEval_RestoreThread(progress->thread);
  int failed = PyErr_CheckSignals();
  if (failed == 0 && progress->callable) {
    PyObject *answer =
        PyObject_CallFunction(progress->callable, "KK", (unsigned long long)done, (unsigned long long)total);
    failed = answer ? 0 : -1;
    Py_XDECREF(answer);
  }
  progress->thread = PyEval_SaveThread();
  return failed;
}
