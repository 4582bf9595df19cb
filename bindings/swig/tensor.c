/* Torch tensors through DLPack's C structs, so that nothing of torch is compiled in. */
#include <stdlib.h>
#include <string.h>

#include "view.h"

/* The layout that DLPack's specification fixes for a capsule named "dltensor". */
typedef struct dlpack_tensor {
  void *data;
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  uint8_t dtype_code;
  uint8_t dtype_bits;
  uint16_t dtype_lanes;
  int64_t *shape;
  int64_t *strides; /* NULL: C order */
  uint64_t byte_offset;
  void *manager_context;
  void (*deleter)(struct dlpack_tensor *);
} dlpack_tensor;

enum { DEVICE_CPU = 1 };

typedef struct shared_tensor {
  dlpack_tensor tensor;
  dcpy_hold *hold;
  int64_t shape[DC_DIMENSIONS_MAX];
} shared_tensor;

/* Called by torch when the last tensor over the memory goes: on any thread, without the GIL. */
static void tensor_delete(dlpack_tensor *tensor) {
  shared_tensor *shared = tensor->manager_context;
  dcpy_hold_drop(shared->hold);
  free(shared);
}

/* A capsule that nobody consumed still has its first name. */
static void capsule_destroy(PyObject *capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;
  dlpack_tensor *tensor = PyCapsule_GetPointer(capsule, "dltensor");
  tensor->deleter(tensor);
}

static PyObject *capsule_new(dcpy_hold *hold, const dc_array *array) {
  shared_tensor *shared = calloc(1, sizeof *shared);
  if (!shared) return PyErr_NoMemory();
  memcpy(shared->shape, array->shape, sizeof shared->shape);
  shared->tensor.data = array->data;
  shared->tensor.device_type = DEVICE_CPU;
  shared->tensor.ndim = (int32_t)array->dimensions;
  shared->tensor.dtype_code = array->dtype_code;
  shared->tensor.dtype_bits = array->dtype_bits;
  shared->tensor.dtype_lanes = array->dtype_lanes;
  shared->tensor.shape = shared->shape;
  shared->tensor.manager_context = shared;
  shared->tensor.deleter = tensor_delete;
  shared->hold = hold;
  dcpy_hold_share(hold);
  PyObject *capsule = PyCapsule_New(&shared->tensor, "dltensor", capsule_destroy);
  if (!capsule) tensor_delete(&shared->tensor);
  return capsule;
}

/* What is called of torch, imported at the first tensor. */
static struct {
  PyObject *from_dlpack;
  PyObject *empty_like;
  PyObject *data_ptr; /* the method's name */
} torch;

static int import_torch(void) {
  if (torch.data_ptr) return 0;
  PyObject *module = PyImport_ImportModule("torch");
  PyObject *inner = module ? PyImport_ImportModule("torch._C") : NULL;
  if (!inner) {
    Py_XDECREF(module);
    return -1;
  }
  /* The C function where it is, which is twice as fast as its public wrapper. */
  torch.from_dlpack = PyObject_GetAttrString(inner, "_from_dlpack");
  if (!torch.from_dlpack) {
    PyErr_Clear();
    torch.from_dlpack = PyObject_GetAttrString(module, "from_dlpack");
  }
  torch.empty_like = torch.from_dlpack ? PyObject_GetAttrString(module, "empty_like") : NULL;
  if (torch.empty_like) torch.data_ptr = PyUnicode_InternFromString("data_ptr");
  Py_DECREF(inner);
  Py_DECREF(module);
  return torch.data_ptr ? 0 : -1;
}

/* A private copy in memory of torch's own, so that it behaves as any tensor (resize_, sharing). By memcpy, not clone,
 * which wakes torch's thread pool for copies this small. */
static PyObject *copy_of(PyObject *tensor, const dc_array *array) {
  PyObject *copy = PyObject_CallFunctionObjArgs(torch.empty_like, tensor, NULL);
  PyObject *address = copy ? PyObject_CallMethodObjArgs(copy, torch.data_ptr, NULL) : NULL;
  void *memory = address ? PyLong_AsVoidPtr(address) : NULL;
  Py_XDECREF(address);
  if (PyErr_Occurred()) {
    Py_XDECREF(copy);
    return NULL;
  }
  if (array->bytes) dcpy_copy(memory, array->data, array->bytes);
  return copy;
}

PyObject *dcpy_tensor_new(dcpy_hold *hold, const dc_array *array, int copy) {
  if (import_torch() != 0) return NULL;
  PyObject *capsule = capsule_new(hold, array);
  if (!capsule) return NULL;
  PyObject *tensor = PyObject_CallFunctionObjArgs(torch.from_dlpack, capsule, NULL);
  Py_DECREF(capsule);
  if (!tensor || !copy) return tensor;
  PyObject *result = copy_of(tensor, array);
  Py_DECREF(tensor);
  return result;
}
