/* The player in C: see ../README.md. Plain C11 over the public headers, and getline of POSIX. */
#define _POSIX_C_SOURCE 200809L
#include <ddpcache/ddpcache.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 4, CACHES_MAX = 8 };

static const int64_t WAIT_NS = 60000000000;

/* Why a command failed. Functions that can fail return 0, or 1 by way of this. */
static char complaint[2048];

__attribute__((format(printf, 1, 2))) static int fail(const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(complaint, sizeof complaint, format, values);
  va_end(values);
  return 1;
}

static int is(int32_t status, int32_t expected, const char *what, const dc_error *error) {
  if (status == expected) return 0;
  return fail("%s gave status %d: %s", what, (int)status, status < 0 && error ? error->message : dc_strerror(status));
}

/* ---- Records. ---- */

/* What a record shall be. */
typedef struct record {
  dc_array arrays[DC_ARRAYS_MAX];
  uint32_t count;
  char *structure; /* or NULL */
} record;

typedef struct records {
  record *items;
  int64_t count;
} records;

static void records_free(records *all) {
  for (int64_t i = 0; i < all->count; ++i) free(all->items[i].structure);
  free(all->items);
}

static int unhexed(const char *digits, char **text) {
  size_t length = strlen(digits) / 2;
  *text = calloc(length + 1, 1);
  for (size_t i = 0; i < length; ++i) {
    unsigned value;
    if (sscanf(digits + 2 * i, "%2x", &value) != 1) return fail("%s is not hexadecimal", digits);
    (*text)[i] = (char)value;
  }
  return 0;
}

/* The words after `array`: name, code, bits, lanes, dimensions. */
static int parse_array(char *rest, dc_array *array) {
  char *words = NULL;
  const char *name = strtok_r(rest, " \n", &words);
  long numbers[3 + DC_DIMENSIONS_MAX];
  int count = 0;
  for (const char *word; (word = strtok_r(NULL, " \n", &words)); ++count) {
    if (count == 3 + DC_DIMENSIONS_MAX) return fail("an array of more than %d dimensions", DC_DIMENSIONS_MAX);
    numbers[count] = strtol(word, NULL, 10);
  }
  if (!name || count < 3 || strlen(name) >= sizeof array->name) return fail("not an array of a record");
  memset(array, 0, sizeof *array);
  if (strcmp(name, "-") != 0) memcpy(array->name, name, strlen(name));
  array->dtype_code = (uint8_t)numbers[0];
  array->dtype_bits = (uint8_t)numbers[1];
  array->dtype_lanes = (uint16_t)numbers[2];
  array->dimensions = (uint32_t)(count - 3);
  array->bytes = (uint64_t)(numbers[1] * numbers[2] / 8);
  for (uint32_t d = 0; d < array->dimensions; ++d) {
    array->shape[d] = numbers[3 + d];
    array->bytes *= (uint64_t)array->shape[d];
  }
  return 0;
}

static int parse_line(char *line, records *all) {
  if (strncmp(line, "record ", 7) == 0) {
    all->items = realloc(all->items, (size_t)(all->count + 1) * sizeof *all->items);
    record *added = &all->items[all->count++];
    memset(added, 0, sizeof *added);
    line[strcspn(line, "\n")] = 0;
    return strcmp(line + 7, "-") == 0 ? 0 : unhexed(line + 7, &added->structure);
  }
  record *last = all->count ? &all->items[all->count - 1] : NULL;
  if (strncmp(line, "array ", 6) != 0 || !last || last->count == DC_ARRAYS_MAX) return fail("unexpected: %s", line);
  return parse_array(line + 6, &last->arrays[last->count++]);
}

static int records_read(const char *path, records *all) {
  FILE *file = fopen(path, "r");
  if (!file) return fail("cannot open %s", path);
  char *line = NULL;
  size_t room = 0;
  int failed = 0;
  while (!failed && getline(&line, &room, file) > 0) failed = parse_line(line, all);
  free(line);
  fclose(file);
  return failed;
}

static uint8_t byte_of(const dc_array *array, int64_t index, uint32_t number, uint64_t k) {
  uint8_t byte = (uint8_t)(((uint64_t)index * 31 + number * 7 + k) % 251);
  return array->dtype_code == 6 ? byte % 2 : byte;
}

/* Obtains the memory and writes every byte. */
static int record_write(const record *wanted, dc_fill *fill) {
  dc_error error;
  dc_array arrays[DC_ARRAYS_MAX];
  memcpy(arrays, wanted->arrays, sizeof arrays);
  int32_t status = dc_cache_fill_allocate(fill, arrays, wanted->count, wanted->structure, &error);
  if (is(status, DC_OK, "dc_cache_fill_allocate", &error)) return 1;
  for (uint32_t a = 0; a < wanted->count; ++a) {
    for (uint64_t k = 0; k < arrays[a].bytes; ++k) {
      arrays[a].data[k] = byte_of(&arrays[a], dc_cache_fill_index(fill), a, k);
    }
  }
  return 0;
}

static int array_compare(const dc_array *wanted, const dc_array *found, int64_t index, uint32_t number) {
  int same = found->dtype_code == wanted->dtype_code && found->dtype_bits == wanted->dtype_bits &&
             found->dtype_lanes == wanted->dtype_lanes && found->dimensions == wanted->dimensions &&
             found->bytes == wanted->bytes && strcmp(found->name, wanted->name) == 0;
  for (uint32_t d = 0; same && d < wanted->dimensions; ++d) same = found->shape[d] == wanted->shape[d];
  if (!same) {
    return fail("array %u of sample %" PRId64 " is %s of type %u, %u bits, %u lanes, %u dimensions, %" PRIu64 " bytes",
                number, index, found->name, found->dtype_code, found->dtype_bits, found->dtype_lanes, found->dimensions,
                found->bytes);
  }
  for (uint64_t k = 0; k < found->bytes; ++k) {
    uint8_t expected = byte_of(wanted, index, number, k);
    if (found->data[k] != expected) {
      return fail("byte %" PRIu64 " of array %u of sample %" PRId64 " is %u, not %u", k, number, index, found->data[k],
                  expected);
    }
  }
  return 0;
}

static int view_compare(const record *wanted, const dc_view *view, int64_t index) {
  uint64_t length = 0;
  const char *structure = dc_view_structure(view, &length);
  if (view->index != index || view->array_count != wanted->count) {
    return fail("sample %" PRId64 " is number %" PRId64 " with %u arrays", index, view->index, view->array_count);
  }
  if (!structure != !wanted->structure || (structure && strcmp(structure, wanted->structure) != 0) ||
      (structure && length != strlen(structure))) {
    return fail("sample %" PRId64 " has the structure %s", index, structure ? structure : "of none");
  }
  for (uint32_t a = 0; a < wanted->count; ++a) {
    dc_array array;
    if (is(dc_view_array(view, a, &array), DC_OK, "dc_view_array", NULL)) return 1;
    if (array_compare(&wanted->arrays[a], &array, index, a)) return 1;
  }
  return 0;
}

/* ---- Caches. ---- */

static struct {
  char name[DC_NAME_BYTES_MAX + 1];
  dc_cache *cache;
} caches[CACHES_MAX];

/* The place of an open cache, or of none. */
static int place_of(const char *name) {
  for (int i = 0; i < CACHES_MAX; ++i) {
    if (caches[i].cache && strcmp(caches[i].name, name) == 0) return i;
  }
  return -1;
}

static int cache_open(const char *name, int64_t length, dc_cache **cache) {
  int place = place_of(name);
  if (place < 0) {
    for (place = 0; place < CACHES_MAX && caches[place].cache; ++place) continue;
    if (place == CACHES_MAX) return fail("%d caches are open already", CACHES_MAX);
    dc_error error;
    dc_cache_options options;
    dc_cache_options_init(&options, sizeof options);
    options.length = length;
    options.capacity_bytes = 64 << 20;
    options.sample_bytes_max = 1 << 20;
    int32_t status = dc_cache_open(name, NULL, "interop", &options, &caches[place].cache, &error);
    if (is(status, DC_OK, "dc_cache_open", &error)) return 1;
    snprintf(caches[place].name, sizeof caches[place].name, "%s", name);
  }
  *cache = caches[place].cache;
  return 0;
}

static int fill(dc_cache *cache, const records *all) {
  for (int64_t i = 0; i < all->count; ++i) {
    dc_fill *begun;
    if (is(dc_cache_fill_begin(cache, i, WAIT_NS, &begun), DC_OK, "dc_cache_fill_begin", NULL)) return 1;
    if (record_write(&all->items[i], begun)) {
      dc_cache_fill_abort(begun);
      return 1;
    }
    if (is(dc_cache_fill_commit(begun), DC_OK, "dc_cache_fill_commit", NULL)) return 1;
  }
  return 0;
}

static int read_all(dc_cache *cache, const records *all) {
  for (int64_t i = 0; i < all->count; ++i) {
    dc_view view;
    if (is(dc_cache_view(cache, i, &view), DC_OK, "dc_cache_view", NULL)) return 1;
    int failed = view_compare(&all->items[i], &view, i);
    dc_cache_view_release(&view);
    if (failed) return 1;
  }
  return 0;
}

typedef struct loading {
  const records *all;
  int64_t calls;
} loading;

static int32_t load_one(dc_fill *begun, int64_t index, void *user) {
  loading *own = user;
  ++own->calls;
  return record_write(&own->all->items[index], begun) ? 0 : DC_LOADED;
}

static int load(dc_cache *cache, const records *all, int64_t *calls) {
  loading own = {all, 0};
  for (int64_t i = 0; i < all->count; ++i) {
    dc_view view;
    if (is(dc_cache_load(cache, i, load_one, &own, WAIT_NS, &view), DC_OK, "dc_cache_load", NULL)) return 1;
    int failed = view_compare(&all->items[i], &view, i);
    dc_cache_view_release(&view);
    if (failed) return 1;
  }
  *calls = own.calls;
  return 0;
}

static int with_cache(const char *command, const char *name, const char *path) {
  records all = {NULL, 0};
  dc_cache *cache;
  int64_t calls = -1;
  int failed = records_read(path, &all) || cache_open(name, all.count, &cache);
  if (!failed && strcmp(command, "fill") == 0) failed = fill(cache, &all);
  if (!failed && strcmp(command, "read") == 0) failed = read_all(cache, &all);
  if (!failed && strcmp(command, "load") == 0) failed = load(cache, &all, &calls);
  records_free(&all);
  if (!failed && calls >= 0) snprintf(complaint, sizeof complaint, " %" PRId64, calls);
  return failed;
}

static int close_cache(const char *name) {
  int place = place_of(name);
  if (place < 0) return fail("no cache %s is open", name);
  int32_t status = dc_cache_close(caches[place].cache);
  caches[place].cache = NULL;
  return is(status, DC_OK, "dc_cache_close", NULL);
}

/* ---- Samplers. ---- */

typedef struct sampler_case {
  dc_sampler *sampler;
  int64_t epoch;
  int64_t count;
  int64_t *indices;
} sampler_case;

static void case_close(sampler_case *one) {
  dc_sampler_close(one->sampler);
  free(one->indices);
}

/* Reads a line of CASES, and opens its sampler in its epoch. */
static int case_open(char *line, sampler_case *one) {
  int64_t numbers[11];
  char *at = line;
  for (int i = 0; i < 11; ++i) numbers[i] = (int64_t)strtoull(at, &at, 10);
  memset(one, 0, sizeof *one);
  one->epoch = numbers[5];
  one->count = numbers[10];
  one->indices = calloc((size_t)one->count + 1, sizeof *one->indices);
  for (int64_t i = 0; i < one->count; ++i) one->indices[i] = strtoll(at, &at, 10);

  dc_error error;
  dc_sampler_options options;
  dc_sampler_options_init(&options, sizeof options);
  options.order = (int32_t)numbers[0];
  options.tail = (int32_t)numbers[1];
  options.shuffle = (uint32_t)numbers[2];
  options.length = numbers[3];
  options.seed = (uint64_t)numbers[4];
  options.nodes = (uint32_t)numbers[6];
  options.local_size = (uint32_t)numbers[7];
  options.node = (uint32_t)numbers[8];
  options.local_rank = (uint32_t)numbers[9];
  if (is(dc_sampler_open(&options, &one->sampler, &error), DC_OK, "dc_sampler_open", &error)) return 1;
  return is(dc_sampler_set_epoch(one->sampler, one->epoch, &error), DC_OK, "dc_sampler_set_epoch", &error);
}

/* What the sampler deals from here to the end of its epoch must be the end of the case's indices. */
static int case_compare(const sampler_case *one, int64_t from) {
  dc_error error;
  int64_t size = -1;
  int64_t count = one->count - from;
  if (is(dc_sampler_size(one->sampler, &size), DC_OK, "dc_sampler_size", NULL)) return 1;
  if (size != count) return fail("the sampler deals %" PRId64 " indices, not %" PRId64, size, count);
  int64_t *read = calloc((size_t)count + 1, sizeof *read);
  int failed = is(dc_sampler_read(one->sampler, 0, read, count, &error), DC_OK, "dc_sampler_read", &error);
  for (int64_t p = 0; !failed && p < count; ++p) {
    int64_t index = -1;
    failed = is(dc_sampler_next(one->sampler, &index), DC_OK, "dc_sampler_next", NULL);
    if (!failed && (index != one->indices[from + p] || read[p] != index)) {
      failed = fail("position %" PRId64 " has %" PRId64 " and %" PRId64 ", not %" PRId64, p, index, read[p],
                    one->indices[from + p]);
    }
  }
  int64_t beyond;
  free(read);
  return failed || is(dc_sampler_next(one->sampler, &beyond), DC_END, "dc_sampler_next at the end", NULL);
}

static int sampler(const char *path) {
  FILE *file = fopen(path, "r");
  if (!file) return fail("cannot open %s", path);
  char *line = NULL;
  size_t room = 0;
  int failed = 0;
  while (!failed && getline(&line, &room, file) > 0) {
    sampler_case one;
    failed = case_open(line, &one) || case_compare(&one, 0);
    case_close(&one);
  }
  free(line);
  fclose(file);
  return failed;
}

/* Calls `use` with the sampler of the one case in a file. */
static int with_case(const char *path, int (*use)(sampler_case *one, const char *, const char *), const char *first,
                     const char *second) {
  FILE *file = fopen(path, "r");
  char *line = NULL;
  size_t room = 0;
  if (!file || getline(&line, &room, file) <= 0) return fail("cannot read %s", path);
  fclose(file);
  sampler_case one;
  int failed = case_open(line, &one) || use(&one, first, second);
  case_close(&one);
  free(line);
  return failed;
}

static int save(sampler_case *one, const char *consumed, const char *path) {
  dc_error error;
  uint8_t state[DC_SAMPLER_STATE_BYTES_MAX];
  uint64_t bytes = 0;
  int32_t status =
      dc_sampler_state_save(one->sampler, strtoll(consumed, NULL, 10), state, sizeof state, &bytes, &error);
  if (is(status, DC_OK, "dc_sampler_state_save", &error)) return 1;
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(state, 1, bytes, file) != bytes || fclose(file) != 0) return fail("cannot write %s", path);
  return 0;
}

static int resume(sampler_case *one, const char *path, const char *unused) {
  (void)unused;
  dc_error error;
  uint8_t state[DC_SAMPLER_STATE_BYTES_MAX];
  FILE *file = fopen(path, "rb");
  if (!file) return fail("cannot open %s", path);
  uint64_t bytes = fread(state, 1, sizeof state, file);
  fclose(file);
  int32_t status = dc_sampler_state_load(one->sampler, state, bytes, &error);
  if (is(status, DC_OK, "dc_sampler_state_load", &error)) return 1;
  /* As a trainer does after loading; it changes nothing. */
  status = dc_sampler_set_epoch(one->sampler, one->epoch, &error);
  if (is(status, DC_OK, "dc_sampler_set_epoch", &error)) return 1;
  int64_t left = 0;
  if (is(dc_sampler_size(one->sampler, &left), DC_OK, "dc_sampler_size", NULL)) return 1;
  if (left > one->count) return fail("%" PRId64 " samples are left of %" PRId64, left, one->count);
  return case_compare(one, one->count - left);
}

static int play(char *words[], int count) {
  const char *command = count ? words[0] : "";
  if (count == 3 && (strcmp(command, "fill") == 0 || strcmp(command, "read") == 0 || strcmp(command, "load") == 0)) {
    return with_cache(command, words[1], words[2]);
  }
  if (count == 2 && strcmp(command, "close") == 0) return close_cache(words[1]);
  if (count == 2 && strcmp(command, "sampler") == 0) return sampler(words[1]);
  if (count == 4 && strcmp(command, "save") == 0) return with_case(words[1], save, words[2], words[3]);
  if (count == 3 && strcmp(command, "resume") == 0) return with_case(words[1], resume, words[2], NULL);
  return fail("no such command: %s", command);
}

int main(void) {
  char *line = NULL;
  size_t room = 0;
  while (getline(&line, &room, stdin) > 0) {
    char *words[WORDS_MAX + 1];
    char *rest = NULL;
    int count = 0;
    for (char *word = strtok_r(line, " \n", &rest); word && count <= WORDS_MAX; word = strtok_r(NULL, " \n", &rest)) {
      words[count++] = word;
    }
    if (count == 1 && strcmp(words[0], "quit") == 0) break;
    complaint[0] = 0;
    int failed = play(words, count);
    printf(failed ? "error %s\n" : "ok%s\n", complaint);
    fflush(stdout);
  }
  free(line);
  for (int i = 0; i < CACHES_MAX; ++i) dc_cache_close(caches[i].cache);
  return 0;
}
