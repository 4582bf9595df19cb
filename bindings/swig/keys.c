#include "keys.h"

#include <string.h>

/* No byte of UTF-8: what begins with it is no text. */
enum { NOT_TEXT = 0xFF };

static uint8_t *room_for(dcpy_key *key, uint64_t more) {
  if (more > key->room - key->size) {
    uint64_t room = 2 * (key->size + more);
    uint8_t *grown = PyMem_Realloc(key->allocated, (size_t)room);
    if (!grown) {
      PyErr_NoMemory();
      return NULL;
    }
    if (!key->allocated) memcpy(grown, key->own, (size_t)key->size);
    key->bytes = key->allocated = grown;
    key->room = room;
  }
  uint8_t *place = (key->allocated ? key->allocated : key->own) + key->size;
  key->size += more;
  return place;
}

static int append(dcpy_key *key, const void *bytes, uint64_t size) {
  uint8_t *place = room_for(key, size);
  if (!place) return -1;
  memcpy(place, bytes, (size_t)size);
  return 0;
}

static int append_kind(dcpy_key *key, char kind) {
  uint8_t *place = room_for(key, 2);
  if (!place) return -1;
  place[0] = NOT_TEXT;
  place[1] = (uint8_t)kind;
  return 0;
}

/* The text's UTF-8, borrowed from it; lone surrogates, which have none, as if they had. NULL with an exception. */
static const char *utf8_of(PyObject *text, Py_ssize_t *size, PyObject **owner) {
  *owner = NULL;
  const char *utf8 = PyUnicode_AsUTF8AndSize(text, size);
  if (utf8 || !PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return utf8;
  PyErr_Clear();
  char *encoded = NULL;
  *owner = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
  if (!*owner || PyBytes_AsStringAndSize(*owner, &encoded, size) != 0) Py_CLEAR(*owner);
  return encoded;
}

static int append_text(dcpy_key *key, PyObject *text) {
  Py_ssize_t size = 0;
  PyObject *owner;
  const char *utf8 = utf8_of(text, &size, &owner);
  int status = utf8 ? append(key, utf8, (uint64_t)size) : -1;
  Py_XDECREF(owner);
  return status;
}

static int append_bytes(dcpy_key *key, PyObject *bytes) {
  char *data;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(bytes, &data, &size) != 0 || append_kind(key, 'b') != 0) return -1;
  return append(key, data, (uint64_t)size);
}

/* In decimal digits, of any length. */
static int append_number(dcpy_key *key, PyObject *number) {
  int overflow;
  long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
  if ((value == -1 && PyErr_Occurred()) || append_kind(key, 'i') != 0) return -1;
  if (overflow) {
    PyObject *text = PyNumber_ToBase(number, 10);
    int status = text ? append_text(key, text) : -1;
    Py_XDECREF(text);
    return status;
  }
  char digits[24];
  char *first = digits + sizeof digits;
  unsigned long long rest = value < 0 ? 0 - (unsigned long long)value : (unsigned long long)value;
  do *--first = (char)('0' + rest % 10);
  while ((rest /= 10) > 0);
  if (value < 0) *--first = '-';
  return append(key, first, (uint64_t)(digits + sizeof digits - first));
}

static int append_key(dcpy_key *key, PyObject *object);

/* Each part with its length before it, which is known only afterwards. */
static int append_part(dcpy_key *key, PyObject *part) {
  uint64_t length = 0;
  const uint64_t place = key->size;
  if (append(key, &length, sizeof length) != 0 || append_key(key, part) != 0) return -1;
  length = key->size - place - sizeof length;
  memcpy((key->allocated ? key->allocated : key->own) + place, &length, sizeof length);
  return 0;
}

static int append_tuple(dcpy_key *key, PyObject *tuple) {
  if (append_kind(key, 't') != 0 || Py_EnterRecursiveCall(" in a key") != 0) return -1;
  int status = 0;
  const Py_ssize_t parts = PyTuple_Size(tuple);
  for (Py_ssize_t i = 0; i < parts && status == 0; ++i) status = append_part(key, PyTuple_GetItem(tuple, i));
  Py_LeaveRecursiveCall();
  return status;
}

static int no_key(PyObject *object) {
  PyErr_Format(PyExc_TypeError, "a key is a str, bytes, int, path or a tuple of these, not %R of type %S", object,
               (PyObject *)Py_TYPE(object));
  return -1;
}

/* Objects that stand for a number or a path: of NumPy, pathlib and others. */
static int append_other(dcpy_key *key, PyObject *object) {
  if (PyBool_Check(object)) return no_key(object);
  PyObject *stands_for = PyIndex_Check(object) ? PyNumber_Index(object) : PyOS_FSPath(object);
  if (!stands_for) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) return -1;
    PyErr_Clear();
    return no_key(object);
  }
  int status = append_key(key, stands_for);
  Py_DECREF(stands_for);
  return status;
}

static int append_key(dcpy_key *key, PyObject *object) {
  if (PyUnicode_Check(object)) return append_text(key, object);
  if (PyTuple_Check(object)) return append_tuple(key, object);
  if (PyLong_Check(object) && !PyBool_Check(object)) return append_number(key, object);
  if (PyBytes_Check(object)) return append_bytes(key, object);
  return append_other(key, object);
}

int dcpy_key_encode(PyObject *object, dcpy_key *key) {
  key->bytes = key->own;
  key->size = 0;
  key->room = sizeof key->own;
  key->owner = NULL;
  key->allocated = NULL;
  if (PyUnicode_Check(object)) {
    Py_ssize_t size = 0;
    key->bytes = (const uint8_t *)utf8_of(object, &size, &key->owner);
    key->size = (uint64_t)size;
    return key->bytes ? 0 : -1;
  }
  if (append_key(key, object) == 0) return 0;
  dcpy_key_clear(key);
  return -1;
}

void dcpy_key_clear(dcpy_key *key) {
  Py_CLEAR(key->owner);
  PyMem_Free(key->allocated);
  key->allocated = NULL;
}
