/* train: several processes learn to read handwritten digits, from samples that all of them share.
 *
 *     cc train.c $(pkg-config --cflags --libs ddpcache) -lm -pthread -o train
 *     python ../python/cache_digits.py --file digits.csv
 *     ./train digits.csv [NAME [RANKS]]
 *
 * The program starts RANKS (2) processes, and tells each its place as torchrun would. Each sample is read from the file
 * by one of them, once, and found by the others; where another program has the digits cached under this NAME already
 * (`python ../python/cache_digits.py NAME`), they are all found. The model is a softmax regression, trained by gradient
 * descent on digits 0 to 1436, with gradients averaged over the ranks at each step as DDP does; the rest judge it. */
#define _DEFAULT_SOURCE
#include <ddpcache/ddpcache.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DIGITS = 1797, TRAINED = 1437, PIXELS = 64, CLASSES = 10, WEIGHTS = (PIXELS + 1) * CLASSES };
enum { EPOCHS = 5, BATCH = 32, RANKS_MAX = 64, LINE_BYTES_MAX = 1024 };

static const float RATE = 0.5f;
static const int64_t WAIT_NS = 60000000000;

static void stop(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static void must(int32_t status, const char *what, const dc_error *error) {
  if (status != DC_OK) stop(what, status < 0 && error ? error->message : dc_strerror(status));
}

/* ---- The data set: a cache, and the file that it is filled from. ---- */

typedef struct digit {
  uint8_t pixels[PIXELS]; /* 0..16 */
  int64_t label;
} digit;

typedef struct digits {
  dc_cache *cache;
  const char *path;
  FILE *file; /* NULL until a sample is missing */
  long starts[DIGITS];
  int decoded, used;
  digit own; /* the digit that was decoded last */
} digits;

static digits digits_open(const char *path, const char *name) {
  dc_error error;
  dc_cache_options options;
  dc_cache_options_init(&options, sizeof options);
  options.length = DIGITS;
  options.capacity_bytes = 4 << 20;
  digits all = {.path = path};
  must(dc_cache_open(name, NULL, "digits 1", &options, &all.cache, &error), name, &error);
  return all;
}

static void find_lines(digits *all) {
  char line[LINE_BYTES_MAX];
  all->file = fopen(all->path, "r");
  if (!all->file) stop(all->path, "cannot be opened");
  for (int i = 0; i < DIGITS; ++i) {
    all->starts[i] = ftell(all->file);
    if (!fgets(line, sizeof line, all->file)) stop(all->path, "has too few lines");
  }
}

/* Line `index` of the file: 64 pixels and the digit. */
static digit decode(digits *all, int64_t index) {
  digit read = {.label = -1};
  char line[LINE_BYTES_MAX];
  char *at = line;
  if (!all->file) find_lines(all);
  ++all->decoded;
  if (fseek(all->file, all->starts[index], SEEK_SET) != 0 || !fgets(line, sizeof line, all->file)) {
    stop(all->path, "cannot be read");
  }
  for (int i = 0; i <= PIXELS; ++i) {
    char *word = at;
    long number = (long)strtod(word, &at);
    if (at == word || *at != (i < PIXELS ? ',' : '\n')) stop(all->path, "has a line without 64 pixels and a label");
    ++at;
    if (i < PIXELS) {
      read.pixels[i] = (uint8_t)number;
    } else {
      read.label = number;
    }
  }
  return read;
}

/* A loader: where the cache has no room, the digit is kept for this once. */
static int32_t load(dc_fill *fill, int64_t index, void *user) {
  digits *all = user;
  all->own = decode(all, index);
  dc_array arrays[] = {
      {.name = "image", .dimensions = 2, .shape = {8, 8}, .dtype_code = 1, .dtype_bits = 8, .dtype_lanes = 1},
      {.name = "label", .dimensions = 0, .dtype_code = 0, .dtype_bits = 64, .dtype_lanes = 1},
  };
  if (dc_cache_fill_allocate(fill, arrays, 2, NULL, NULL) != DC_OK) return 0;
  memcpy(arrays[0].data, all->own.pixels, sizeof all->own.pixels);
  memcpy(arrays[1].data, &all->own.label, sizeof all->own.label);
  return DC_LOADED;
}

/* Whoever stored it may have the two arrays in any order. */
static digit digit_of(const dc_view *view) {
  digit seen = {.label = -1};
  for (uint32_t i = 0; i < view->array_count; ++i) {
    dc_array array;
    must(dc_view_array(view, i, &array), "a sample's array", NULL);
    if (strcmp(array.name, "image") == 0 && array.bytes == sizeof seen.pixels) {
      memcpy(seen.pixels, array.data, sizeof seen.pixels);
    } else if (strcmp(array.name, "label") == 0 && array.bytes == sizeof seen.label) {
      memcpy(&seen.label, array.data, sizeof seen.label);
    }
  }
  if (seen.label < 0 || seen.label >= CLASSES) stop("a sample of the cache", "is no digit");
  return seen;
}

static digit get(digits *all, int64_t index) {
  dc_view view;
  ++all->used;
  int32_t status = dc_cache_load(all->cache, index, load, all, WAIT_NS, &view);
  if (status == DC_FULL) return all->own;
  if (status == DC_BUSY) return decode(all, index); /* another process has been at it for a minute */
  must(status, "a digit", NULL);
  digit seen = digit_of(&view);
  dc_cache_view_release(&view);
  return seen;
}

/* ---- The ranks, and what they add up. ---- */

typedef struct group {
  pthread_barrier_t barrier;
  uint32_t ranks;
  float parts[RANKS_MAX][WEIGHTS + 1];
} group;

/* Replaces each number by the sum over all ranks, in the order of ranks, so that it is the same in every run. */
static void sum(group *all, uint32_t rank, float *numbers, int count) {
  memcpy(all->parts[rank], numbers, (size_t)count * sizeof *numbers);
  pthread_barrier_wait(&all->barrier);
  memset(numbers, 0, (size_t)count * sizeof *numbers);
  for (uint32_t other = 0; other < all->ranks; ++other) {
    for (int i = 0; i < count; ++i) numbers[i] += all->parts[other][i];
  }
  pthread_barrier_wait(&all->barrier);
}

/* ---- Softmax regression: ten sums of weighted pixels and a bias. ---- */

static float input(const digit *one, int i) { return i < PIXELS ? one->pixels[i] / 16.0f : 1.0f; }

static void probabilities(const float *weights, const digit *one, float *found) {
  float largest = -INFINITY, total = 0;
  for (int c = 0; c < CLASSES; ++c) {
    found[c] = 0;
    for (int i = 0; i <= PIXELS; ++i) found[c] += input(one, i) * weights[i * CLASSES + c];
    largest = fmaxf(largest, found[c]);
  }
  for (int c = 0; c < CLASSES; ++c) total += found[c] = expf(found[c] - largest);
  for (int c = 0; c < CLASSES; ++c) found[c] /= total;
}

static int answer(const float *weights, const digit *one) {
  float found[CLASSES];
  int best = 0;
  probabilities(weights, one, found);
  for (int c = 1; c < CLASSES; ++c) best = found[c] > found[best] ? c : best;
  return best;
}

/* Adds a digit's gradient, and behind that its loss. */
static void learn(const float *weights, const digit *one, float *gradient) {
  float errors[CLASSES];
  probabilities(weights, one, errors);
  gradient[WEIGHTS] -= logf(errors[one->label]);
  errors[one->label] -= 1;
  for (int i = 0; i <= PIXELS; ++i) {
    for (int c = 0; c < CLASSES; ++c) gradient[i * CLASSES + c] += input(one, i) * errors[c];
  }
}

/* ---- Training. ---- */

static dc_sampler *open_sampler(int64_t length, uint32_t shuffle, const dc_topology *place) {
  dc_error error;
  dc_sampler *sampler;
  dc_sampler_options options;
  dc_sampler_options_init(&options, sizeof options);
  options.length = length;
  options.seed = 7;
  options.shuffle = shuffle;
  options.node = place->node;
  options.nodes = place->nodes;
  options.local_rank = place->local_rank;
  options.local_size = place->local_size;
  must(dc_sampler_open(&options, &sampler, &error), "the sampler", &error);
  return sampler;
}

/* One epoch; the mean loss. */
static float train_epoch(digits *all, dc_sampler *sampler, group *ranks, uint32_t rank, float *weights) {
  int64_t index, left;
  float loss = 0, samples = 0;
  must(dc_sampler_size(sampler, &left), "the sampler's size", NULL);
  while (left > 0) {
    float gradient[WEIGHTS + 1] = {0};
    int64_t batch = left < BATCH ? left : BATCH;
    for (int64_t i = 0; i < batch; ++i) {
      must(dc_sampler_next(sampler, &index), "the next sample", NULL);
      digit one = get(all, index);
      learn(weights, &one, gradient);
    }
    sum(ranks, rank, gradient, WEIGHTS + 1);
    float seen = (float)batch * (float)ranks->ranks;
    for (int i = 0; i < WEIGHTS; ++i) weights[i] -= RATE * gradient[i] / seen;
    loss += gradient[WEIGHTS];
    samples += seen;
    left -= batch;
  }
  return loss / samples;
}

/* The share of the digits kept back that the model reads right. Each counts once, though some are dealt twice. */
static float judge(digits *all, dc_sampler *sampler, group *ranks, uint32_t rank, const float *weights) {
  int64_t index, count;
  float right = 0;
  must(dc_sampler_real_size(sampler, &count, NULL), "the judge's size", NULL);
  must(dc_sampler_seek(sampler, 0, NULL), "the judge's position", NULL);
  for (int64_t i = 0; i < count; ++i) {
    must(dc_sampler_next(sampler, &index), "the next sample", NULL);
    digit one = get(all, TRAINED + index);
    right += answer(weights, &one) == one.label;
  }
  sum(ranks, rank, &right, 1);
  return right / (DIGITS - TRAINED);
}

static int train(const char *path, const char *name, group *ranks) {
  dc_error error;
  dc_topology place = {.struct_size = sizeof place};
  must(dc_topology_detect(&place, &error), "the topology", &error);
  digits all = digits_open(path, name);
  dc_sampler *sampler = open_sampler(TRAINED, 1, &place);
  dc_sampler *judged = open_sampler(DIGITS - TRAINED, 0, &place);
  float weights[WEIGHTS] = {0};
  for (int64_t epoch = 0; epoch < EPOCHS; ++epoch) {
    must(dc_sampler_set_epoch(sampler, epoch, &error), "the epoch", &error);
    float loss = train_epoch(&all, sampler, ranks, place.rank, weights);
    float accuracy = judge(&all, judged, ranks, place.rank, weights) * 100;
    if (place.rank == 0) printf("epoch %d/%d  loss %.4f  accuracy %.1f%%\n", (int)epoch + 1, EPOCHS, loss, accuracy);
    fflush(stdout);
  }
  float counts[2] = {(float)all.decoded, (float)all.used};
  sum(ranks, place.rank, counts, 2);
  if (place.rank == 0) printf("decoded %.0f, found %.0f\n", counts[0], counts[1] - counts[0]);
  dc_sampler_close(judged);
  dc_sampler_close(sampler);
  if (all.file) fclose(all.file);
  return dc_cache_close(all.cache) == DC_OK ? 0 : 1;
}

static void tell_place(uint32_t rank, uint32_t ranks) {
  char number[16], count[16];
  snprintf(number, sizeof number, "%u", rank);
  snprintf(count, sizeof count, "%u", ranks);
  setenv("RANK", number, 1);
  setenv("LOCAL_RANK", number, 1);
  setenv("WORLD_SIZE", count, 1);
  setenv("LOCAL_WORLD_SIZE", count, 1);
}

int main(int count, char **arguments) {
  long ranks = count > 3 ? strtol(arguments[3], NULL, 10) : 2;
  if (count < 2 || ranks < 1 || ranks > RANKS_MAX) stop("usage", "train DIGITS.csv [NAME [RANKS]], of 1 to 64 ranks");
  const char *name = count > 2 ? arguments[2] : "digits";

  group *all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) stop("memory", "is not there");
  all->ranks = (uint32_t)ranks;
  pthread_barrierattr_t shared;
  pthread_barrierattr_init(&shared);
  pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&all->barrier, &shared, all->ranks);

  pid_t processes[RANKS_MAX];
  for (uint32_t rank = 0; rank < all->ranks; ++rank) {
    processes[rank] = fork();
    if (processes[rank] == 0) {
      tell_place(rank, all->ranks);
      return train(arguments[1], name, all);
    }
  }
  int failed = 0, status;
  for (pid_t ended; (ended = wait(&status)) > 0;) {
    failed |= status != 0;
    for (uint32_t rank = 0; rank < all->ranks; ++rank) {
      if (processes[rank] == ended) processes[rank] = 0;
      /* Where one has failed, the others would wait for it. */
      if (failed && processes[rank] > 0) kill(processes[rank], SIGTERM);
    }
  }
  return failed;
}
