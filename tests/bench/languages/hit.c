/* Hits through C, for ../languages.py: attaches to the cache named, and for each line with a number makes that many
 * hits, sample after sample. A hit is a view of the sample, a look at its length, and the end of the view; the sum of
 * all lengths is the answer. */
#include <ddpcache/ddpcache.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t hit(dc_cache *cache, int64_t length, int64_t count) {
  uint64_t bytes = 0;
  for (int64_t i = 0; i < count; ++i) {
    dc_view view;
    if (dc_cache_view(cache, i % length, &view) != DC_OK) return 0;
    bytes += view.bytes;
    dc_cache_view_release(&view);
  }
  return bytes;
}

int main(int count, char **arguments) {
  dc_cache *cache;
  dc_error error;
  dc_cache_info info = {.struct_size = sizeof info};
  char line[32];
  if (count != 2 || dc_cache_attach(arguments[1], NULL, 0, &cache, &error) != DC_OK) return 1;
  if (dc_cache_info_get(cache, &info) != DC_OK) return 1;
  while (fgets(line, sizeof line, stdin)) {
    printf("%" PRIu64 "\n", hit(cache, info.length, strtoll(line, NULL, 10)));
    fflush(stdout);
  }
  return dc_cache_close(cache) == DC_OK ? 0 : 1;
}
