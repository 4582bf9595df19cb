/* Keys as Python sees them: the bytes of a str, bytes, int, path or tuple of them, as docs/format.md says. */
#ifndef DDPCACHE_SWIG_KEYS_H
#define DDPCACHE_SWIG_KEYS_H

#include "module.h"

typedef struct dcpy_key {
  const uint8_t *bytes;
  uint64_t size;
  uint64_t room;
  PyObject *owner;    /* of bytes that are an object's own; else NULL */
  uint8_t *allocated; /* where `own` is too small; else NULL */
  uint8_t own[232];
} dcpy_key;

/* 0, or -1 with a TypeError that names the type, and nothing to clear. The object must outlive the key. */
int dcpy_key_encode(PyObject *object, dcpy_key *key);
void dcpy_key_clear(dcpy_key *key);

#endif
