/* hello_sampler: how the samples of a data set are dealt to two machines of two ranks each, over three epochs.
 *
 * Each rank's process would open only its own sampler; this program opens all four to show them side by side. Watch
 * that a machine's samples stay the same while their order changes: what it cached in epoch 0 it reads again in epoch
 * 1.
 *
 *     cc hello_sampler.c $(pkg-config --cflags --libs ddpcache) -o hello_sampler */
#include <ddpcache/ddpcache.h>
#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 18, NODES = 2, RANKS_PER_NODE = 2, EPOCHS = 3 };

static void stop(const dc_error *error) {
  fprintf(stderr, "%s\n", error->message);
  exit(1);
}

static dc_sampler *open_sampler(uint32_t node, uint32_t local_rank) {
  dc_error error;
  dc_sampler_options options;
  dc_sampler_options_init(&options, sizeof options);
  options.length = LENGTH;
  options.seed = 7;
  options.node = node;
  options.nodes = NODES;
  options.local_rank = local_rank;
  options.local_size = RANKS_PER_NODE;

  dc_sampler *sampler;
  if (dc_sampler_open(&options, &sampler, &error) != DC_OK) stop(&error);
  return sampler;
}

static void print_epoch(dc_sampler *sampler, uint32_t node, uint32_t local_rank, int64_t epoch) {
  dc_error error;
  int64_t real_size;
  if (dc_sampler_set_epoch(sampler, epoch, &error) != DC_OK) stop(&error);
  if (dc_sampler_real_size(sampler, &real_size, &error) != DC_OK) stop(&error);

  printf("epoch %d  node %u  rank %u:", (int)epoch, node, local_rank);
  int64_t index;
  for (int64_t position = 0; dc_sampler_next(sampler, &index) == DC_OK; ++position) {
    /* Beyond real_size there are repeats, which give every rank the same number of samples. */
    printf(position < real_size ? " %2d" : " (%d)", (int)index);
  }
  printf("\n");
}

int main(void) {
  dc_sampler *samplers[NODES][RANKS_PER_NODE];
  for (uint32_t node = 0; node < NODES; ++node) {
    for (uint32_t rank = 0; rank < RANKS_PER_NODE; ++rank) samplers[node][rank] = open_sampler(node, rank);
  }
  for (int64_t epoch = 0; epoch < EPOCHS; ++epoch) {
    for (uint32_t node = 0; node < NODES; ++node) {
      for (uint32_t rank = 0; rank < RANKS_PER_NODE; ++rank) print_epoch(samplers[node][rank], node, rank, epoch);
    }
  }
  for (uint32_t node = 0; node < NODES; ++node) {
    for (uint32_t rank = 0; rank < RANKS_PER_NODE; ++rank) dc_sampler_close(samplers[node][rank]);
  }
  return 0;
}
