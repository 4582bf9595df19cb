#include "module.h"

#include <string.h>

#include "handle.h"
#include "view.h"

dcpy_globals dcpy;

PyObject *dcpy_fail(int32_t status, const char *message) {
  if (!dcpy.error_of) {
    PyErr_SetString(PyExc_RuntimeError, "import ddpcache, not its module _ddpcache");
    return NULL;
  }
  PyObject *error = PyObject_CallFunction(dcpy.error_of, "is", (int)status, message ? message : dc_strerror(status));
  if (error) {
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_DECREF(error);
  }
  return NULL;
}

/* From here on a copy takes longer than handing the GIL over. */
enum { COPY_WITH_GIL_MAX = 1 << 20 };

void dcpy_copy(void *to, const void *from, uint64_t bytes) {
  if (bytes <= COPY_WITH_GIL_MAX) {
    memcpy(to, from, (size_t)bytes);
    return;
  }
  PyThreadState *thread = PyEval_SaveThread();
  memcpy(to, from, (size_t)bytes);
  PyEval_RestoreThread(thread);
}

static PyObject *module_connect(PyObject *self, PyObject *args) {
  (void)self;
  PyObject *error_of, *flatten, *plan_of_structure, *plan_of_names, *plan_of_packed;
  if (!PyArg_ParseTuple(args, "OOOOO:_connect", &error_of, &flatten, &plan_of_structure, &plan_of_names,
                        &plan_of_packed))
    return NULL;
  dcpy.error_of = Py_NewRef(error_of);
  dcpy.flatten = Py_NewRef(flatten);
  dcpy.plan_of_structure = Py_NewRef(plan_of_structure);
  dcpy.plan_of_names = Py_NewRef(plan_of_names);
  dcpy.plan_of_packed = Py_NewRef(plan_of_packed);
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"_connect", module_connect, METH_VARARGS,
     "_connect(error_of, flatten, plan_of_structure, plan_of_names, plan_of_packed)\n--\n\n"
     "Gives the module the Python functions that it calls. Once, by ddpcache itself."},
    {NULL, NULL, 0, NULL}};

int dcpy_module_extend(PyObject *module) {
  if (PyModule_AddFunctions(module, functions) != 0) return -1;
  dcpy.plans = PyDict_New();
  return dcpy.plans && dcpy_view_register(module) == 0 && dcpy_handle_register(module) == 0 ? 0 : -1;
}
