// The same loop compiled for several instruction sets, chosen when first used. Integer arithmetic only, so that results
// do not depend on the choice.
#include "feistel.hpp"

namespace ddpcache {
namespace {

template <typename Network>
[[gnu::always_inline]] inline void permute_blocks(const Network &network, uint64_t *words, size_t blocks) {
  for (size_t i = 0; i < blocks; ++i) network.permute_block(words + i * Network::block_size);
}

void portable_narrow(const NarrowFeistel &network, uint64_t *words, size_t blocks) {
  permute_blocks(network, words, blocks);
}

void portable_wide(const WideFeistel &network, uint64_t *words, size_t blocks) {
  permute_blocks(network, words, blocks);
}

constexpr FeistelKernel portable = {"portable", portable_narrow, portable_wide};

#if defined(__x86_64__)
#define DDPCACHE_AVX2 gnu::target("avx2")
#define DDPCACHE_AVX512 gnu::target("avx2,avx512f,avx512bw,avx512dq,avx512vl")

[[DDPCACHE_AVX2]] void avx2_narrow(const NarrowFeistel &network, uint64_t *words, size_t blocks) {
  permute_blocks(network, words, blocks);
}

[[DDPCACHE_AVX2]] void avx2_wide(const WideFeistel &network, uint64_t *words, size_t blocks) {
  permute_blocks(network, words, blocks);
}

[[DDPCACHE_AVX512]] void avx512_narrow(const NarrowFeistel &network, uint64_t *words, size_t blocks) {
  permute_blocks(network, words, blocks);
}

[[DDPCACHE_AVX512]] void avx512_wide(const WideFeistel &network, uint64_t *words, size_t blocks) {
  permute_blocks(network, words, blocks);
}

constexpr FeistelKernel kernels[] = {
    portable, {"avx2", avx2_narrow, avx2_wide}, {"avx512", avx512_narrow, avx512_wide}};

size_t supported() {
  if (!__builtin_cpu_supports("avx2")) return 1;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? 3 : 2;
}
#else
constexpr FeistelKernel kernels[] = {portable};

size_t supported() { return 1; }
#endif

}  // namespace

FeistelKernels feistel_kernels() {
  static const size_t count = supported();
  return {kernels, count};
}

}  // namespace ddpcache
