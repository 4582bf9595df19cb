#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "ddpcache/sampler.h"
#include "guard.hpp"
#include "permutation.hpp"
#include "sampler.hpp"
#include "topology.hpp"

using ddpcache::check_unknown_options;
using ddpcache::failure;
using ddpcache::guarded;
using ddpcache::null_argument;
using ddpcache::Status;

struct dc_sampler {
  std::unique_ptr<ddpcache::Sampler> sampler;
};

struct dc_permutation {
  ddpcache::Permutation permutation;
};

namespace {

// No struct of ours will reach it: a larger size is a mistake, such as memory that was never initialised.
constexpr uint32_t struct_size_max = 4096;

Status check_struct_size(uint32_t struct_size, size_t least) {
  if (struct_size >= least && struct_size <= struct_size_max) return DC_OK;
  return failure(DC_ERROR_ARGUMENT, "struct_size is %" PRIu32 ", outside %zu..%" PRIu32, struct_size, least,
                 struct_size_max);
}

}  // namespace

extern "C" {

int32_t dc_topology_detect(dc_topology *topology, dc_error *error) {
  return guarded(error, [&]() -> Status {
    if (!topology) return null_argument("topology");
    if (Status status = check_struct_size(topology->struct_size, sizeof(dc_topology)); !status.ok()) return status;
    dc_topology found = {};
    Status status = ddpcache::detect_topology([](const char *name) { return std::getenv(name); }, &found);
    if (!status.ok()) return status;
    found.struct_size = topology->struct_size;
    std::memset(topology, 0, topology->struct_size);
    *topology = found;
    return DC_OK;
  });
}

int32_t dc_sampler_options_init(dc_sampler_options *options, uint32_t struct_size) {
  return guarded(nullptr, [&]() -> Status {
    if (!options) return DC_ERROR_ARGUMENT;
    if (Status status = check_struct_size(struct_size, sizeof *options); !status.ok()) return status;
    std::memset(static_cast<void *>(options), 0, struct_size);
    options->struct_size = struct_size;
    options->order = DC_ORDER_NODE;
    options->tail = DC_TAIL_PAD;
    options->shuffle = 1;
    options->nodes = 1;
    options->local_size = 1;
    return DC_OK;
  });
}

int32_t dc_sampler_open(const dc_sampler_options *options, dc_sampler **sampler, dc_error *error) {
  return guarded(error, [&]() -> Status {
    if (!options) return null_argument("options");
    if (!sampler) return null_argument("sampler");
    if (Status status = check_struct_size(options->struct_size, sizeof *options); !status.ok()) return status;
    if (Status status = check_unknown_options(options, options->struct_size, sizeof *options); !status.ok())
      return status;
    auto handle = std::make_unique<dc_sampler>();
    if (Status status = ddpcache::Sampler::open(*options, &handle->sampler); !status.ok()) return status;
    *sampler = handle.release();
    return DC_OK;
  });
}

void dc_sampler_close(dc_sampler *sampler) { delete sampler; }

int32_t dc_sampler_set_epoch(dc_sampler *sampler, int64_t epoch, dc_error *error) {
  return guarded(error,
                 [&]() -> Status { return sampler ? sampler->sampler->set_epoch(epoch) : null_argument("sampler"); });
}

int32_t dc_sampler_next(dc_sampler *sampler, int64_t *index) {
  return guarded(nullptr, [&]() -> Status {
    return sampler && index ? sampler->sampler->next(index) : Status(DC_ERROR_ARGUMENT);
  });
}

int32_t dc_sampler_tell(const dc_sampler *sampler, int64_t *epoch, int64_t *position) {
  if (!sampler) return DC_ERROR_ARGUMENT;
  if (epoch) *epoch = sampler->sampler->epoch();
  if (position) *position = sampler->sampler->position();
  return DC_OK;
}

int32_t dc_sampler_seek(dc_sampler *sampler, int64_t position, dc_error *error) {
  return guarded(error,
                 [&]() -> Status { return sampler ? sampler->sampler->seek(position) : null_argument("sampler"); });
}

int32_t dc_sampler_size(const dc_sampler *sampler, int64_t *size) {
  if (!sampler || !size) return DC_ERROR_ARGUMENT;
  *size = sampler->sampler->size();
  return DC_OK;
}

int32_t dc_sampler_real_size(const dc_sampler *sampler, int64_t *size, dc_error *error) {
  return guarded(error, [&]() -> Status {
    if (!sampler) return null_argument("sampler");
    return size ? sampler->sampler->real_size(size) : null_argument("size");
  });
}

int32_t dc_sampler_read(const dc_sampler *sampler, int64_t position, int64_t *indices, int64_t count, dc_error *error) {
  return guarded(error, [&]() -> Status {
    return sampler ? sampler->sampler->read(position, indices, count) : null_argument("sampler");
  });
}

int32_t dc_sampler_find(const dc_sampler *sampler, int64_t index, uint32_t *rank, int64_t *position, dc_error *error) {
  return guarded(error, [&]() -> Status {
    if (!sampler) return null_argument("sampler");
    if (!rank) return null_argument("rank");
    return position ? sampler->sampler->find(index, rank, position) : null_argument("position");
  });
}

int32_t dc_sampler_shard_size(const dc_sampler *sampler, int64_t *size) {
  if (!sampler || !size) return DC_ERROR_ARGUMENT;
  *size = sampler->sampler->shard_size();
  return DC_OK;
}

int32_t dc_sampler_shard_read(const dc_sampler *sampler, int64_t position, int64_t *indices, int64_t count,
                              dc_error *error) {
  return guarded(error, [&]() -> Status {
    return sampler ? sampler->sampler->shard_read(position, indices, count) : null_argument("sampler");
  });
}

int32_t dc_sampler_keeps(const dc_sampler *sampler, int64_t index) {
  return guarded(nullptr,
                 [&]() -> Status { return sampler ? sampler->sampler->keeps(index) : Status(DC_ERROR_ARGUMENT); });
}

int32_t dc_sampler_state_save(const dc_sampler *sampler, int64_t consumed, uint8_t *buffer, uint64_t buffer_bytes,
                              uint64_t *needed_bytes, dc_error *error) {
  return guarded(error, [&]() -> Status {
    if (!sampler) return null_argument("sampler");
    if (!buffer && buffer_bytes > 0) return null_argument("buffer");
    ddpcache::StateBytes state;
    if (Status status = sampler->sampler->save_state(consumed, &state); !status.ok()) return status;
    if (needed_bytes) *needed_bytes = state.size;
    if (buffer_bytes < state.size) {
      return failure(DC_ERROR_BUFFER, "the buffer has %" PRIu64 " bytes and the state %" PRIu64, buffer_bytes,
                     state.size);
    }
    std::memcpy(buffer, state.bytes.data(), state.size);
    return DC_OK;
  });
}

int32_t dc_sampler_state_load(dc_sampler *sampler, const uint8_t *state, uint64_t state_bytes, dc_error *error) {
  return guarded(error, [&]() -> Status {
    if (!sampler) return null_argument("sampler");
    return state ? sampler->sampler->load_state(state, state_bytes) : null_argument("state");
  });
}

int32_t dc_permutation_open(int64_t length, uint64_t seed, int64_t epoch, uint32_t window, int32_t purpose,
                            dc_permutation **permutation, dc_error *error) {
  return guarded(error, [&]() -> Status {
    if (!permutation) return null_argument("permutation");
    if (length < 0 || length > DC_SAMPLER_LENGTH_MAX) {
      return failure(DC_ERROR_RANGE, "length %" PRId64 " is outside 0..%" PRId64, length, DC_SAMPLER_LENGTH_MAX);
    }
    if (epoch < 0 || epoch > DC_SAMPLER_EPOCH_MAX) {
      return failure(DC_ERROR_RANGE, "epoch %" PRId64 " is outside 0..%" PRId64, epoch, DC_SAMPLER_EPOCH_MAX);
    }
    if (purpose != DC_PURPOSE_RING && purpose != DC_PURPOSE_INNER && purpose != DC_PURPOSE_USER) {
      return failure(DC_ERROR_ARGUMENT, "purpose %" PRId32 " is none of dc_purpose", purpose);
    }
    *permutation = new dc_permutation{ddpcache::Permutation(
        {static_cast<uint64_t>(length), seed, static_cast<uint64_t>(epoch), window, static_cast<uint64_t>(purpose)})};
    return DC_OK;
  });
}

void dc_permutation_close(dc_permutation *permutation) { delete permutation; }

int32_t dc_permutation_at(const dc_permutation *permutation, int64_t position, int64_t *index) {
  if (!permutation || !index) return DC_ERROR_ARGUMENT;
  if (position < 0 || static_cast<uint64_t>(position) >= permutation->permutation.length()) return DC_ERROR_RANGE;
  *index = static_cast<int64_t>(permutation->permutation.at(static_cast<uint64_t>(position)));
  return DC_OK;
}

int32_t dc_permutation_inverse(const dc_permutation *permutation, int64_t index, int64_t *position) {
  if (!permutation || !position) return DC_ERROR_ARGUMENT;
  if (index < 0 || static_cast<uint64_t>(index) >= permutation->permutation.length()) return DC_ERROR_RANGE;
  *position = static_cast<int64_t>(permutation->permutation.inverse(static_cast<uint64_t>(index)));
  return DC_OK;
}

int32_t dc_permutation_batch(const dc_permutation *permutation, int64_t position, int64_t *indices, int64_t count) {
  if (!permutation || (!indices && count > 0)) return DC_ERROR_ARGUMENT;
  const int64_t length = static_cast<int64_t>(permutation->permutation.length());
  if (position < 0 || position > length || count < 0 || count > length - position) return DC_ERROR_RANGE;
  permutation->permutation.read(static_cast<uint64_t>(position), reinterpret_cast<uint64_t *>(indices),
                                static_cast<uint64_t>(count));
  return DC_OK;
}

}  // extern "C"
