/* hello_cache: ten samples in a cache that any number of programs, in any language, share while one of them runs.
 *
 * Start it, or its namesakes in the other languages, several times at once with the same name: each sample is decoded
 * by one of them and found by the others.
 *
 *     cc hello_cache.c $(pkg-config --cflags --libs ddpcache) -o hello_cache
 *     ./hello_cache [NAME] */
#include <ddpcache/ddpcache.h>
#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 10, ROWS = 2, COLUMNS = 3 };

static const int64_t WAIT_NS = 60000000000;

static void stop(int32_t status, const char *message) {
  fprintf(stderr, "status %d: %s\n", (int)status, message);
  exit(1);
}

/* Stands for reading and decoding a file: it learns the shape, asks for memory, and decodes straight into it. */
static int32_t decode(dc_fill *fill, int64_t index, void *user) {
  dc_array array = {.shape = {ROWS, COLUMNS}, .dimensions = 2, .dtype_code = 0, .dtype_bits = 32, .dtype_lanes = 1};
  if (dc_cache_fill_allocate(fill, &array, 1, NULL, NULL) != DC_OK) return 0;
  int32_t *values = (int32_t *)(void *)array.data;
  for (int32_t i = 0; i < ROWS * COLUMNS; ++i) values[i] = (int32_t)index * 100 + i;
  ++*(int *)user;
  return DC_LOADED;
}

int main(int count, char **arguments) {
  dc_cache *cache;
  dc_error error;
  dc_cache_options options;
  dc_cache_options_init(&options, sizeof options);
  options.length = LENGTH;
  options.capacity_bytes = 1 << 20;
  const char *name = count > 1 ? arguments[1] : "hello_cache";
  int32_t status = dc_cache_open(name, NULL, "hello_cache 1", &options, &cache, &error);
  if (status != DC_OK) stop(status, error.message);

  int decoded = 0;
  for (int64_t index = 0; index < LENGTH; ++index) {
    dc_view view;
    status = dc_cache_load(cache, index, decode, &decoded, WAIT_NS, &view);
    if (status != DC_OK) stop(status, dc_strerror(status));
    dc_array array;
    status = dc_view_array(&view, 0, &array);
    if (status != DC_OK) stop(status, dc_strerror(status));
    const int32_t *values = (const int32_t *)(const void *)array.data;
    printf("sample %d: %d x %d, from %d to %d\n", (int)index, (int)array.shape[0], (int)array.shape[1], (int)values[0],
           (int)values[array.bytes / sizeof *values - 1]);
    dc_cache_view_release(&view);
  }
  printf("decoded %d, found %d\n", decoded, LENGTH - decoded);
  return dc_cache_close(cache) == DC_OK ? 0 : 1;
}
