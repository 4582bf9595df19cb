// An attached cache whose words and bytes are damaged before and while it is used, by a client and by one that only
// reads: errors, misses and BAD, and nothing else.
#include "play.hpp"

using namespace ddpcache::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Input input(data, size);
  Playground &ground = playground(input.byte());
  for (uint32_t kinds = input.below(4); kinds > 0; --kinds) do_damage(input, ground.words());
  Play(input, ground, Weather::damaging).run();
  ground.restore();
  return 0;
}
