// A saved sampler as bytes: the same on every rank, machine and language. Little-endian, no padding.
//
//     0  magic "DCSS"
//     4  uint16 version of this layout, uint16 number of stages (1..16)
//     8  uint32 DC_SAMPLER_ALGORITHM_VERSION
//    12  uint8 order, tail, shuffle, ring_identity
//    16  uint32 exchange_ppm and
//    20  uint32 canonical_nodes, of the epoch that is saved
//    24  uint64 length
//    32  uint64 seed
//    40  uint64 ring_seed
//    48  uint64 epoch
//    56  uint64 epoch and
//    64  uint64 shift from which the exchange counts
//    72  stages: uint32 nodes, uint32 local_size, uint64 samples that each rank has consumed
//   end  uint64 XXH3-64 of everything before
#pragma once

#include <array>
#include <cstdint>

#include "progress.hpp"
#include "status.hpp"

namespace ddpcache {

struct StateBytes {
  std::array<uint8_t, DC_SAMPLER_STATE_BYTES_MAX> bytes;
  uint64_t size = 0;
};

StateBytes encode_state(const dc_sampler_options &options, const Progress &progress);

// DC_ERROR_SAMPLER_STATE where the bytes are no sound state, or one of a sampler with other options; the message says
// which. Only the layout, and the exchange, may be others than the sampler's.
Status decode_state(const uint8_t *bytes, uint64_t size, const dc_sampler_options &options, Progress *progress);

}  // namespace ddpcache
