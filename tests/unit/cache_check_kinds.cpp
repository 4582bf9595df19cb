// dc_cache_check finds what the fuzzer does to caches (tests/support/damage.hpp), and survives all of it.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <string>

#include "../support/damage.hpp"
#include "cache_check_museum.hpp"

namespace ddpcache::test {
namespace {

class Kinds : public ::testing::TestWithParam<Exhibition> {};

INSTANTIATE_TEST_SUITE_P(Of, Kinds, ::testing::ValuesIn(kExhibitions), name_of_exhibition);

TEST_P(Kinds, OfDamageThatBreakAnInvariantAreFound) {
  const char *wish = std::getenv("DDPCACHE_TEST_SEED");
  const uint64_t seed = wish ? std::strtoull(wish, nullptr, 0) : std::random_device()();
  SCOPED_TRACE(::testing::Message() << "DDPCACHE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  Museum museum(GetParam());
  int done = 0;
  for (const DamageKind &kind : kDamageKinds) {
    int applied = 0, missed = 0;
    for (int round = 0; round < 50; ++round) {
      const DamageChoice choice = {static_cast<uint32_t>(random()), random()};
      if (!kind.apply(museum.segment(), choice)) continue;
      ++applied;
      missed += check_of(museum.cache()).status != DC_ERROR_DAMAGED;
      museum.restore_all();
    }
    EXPECT_TRUE(missed == 0 || !kind.breaks_invariant)
        << kind.name << ": " << missed << " of " << applied << " not found";
    done += applied;
  }
  const Finding sound = check_of(museum.cache());
  EXPECT_EQ(sound.status, DC_OK) << "all is as it was: " << sound.text;
  EXPECT_GT(done, 1000);
}

// The check itself calls such a client dead, by a word that is sound.
TEST_P(Kinds, OfWordsThatAreNoStateAreFoundThoughTheyLookAlive) {
  Museum museum(GetParam());
  for (uint32_t number = 0; number < Museum::kClients; ++number) {
    Word &shared = museum.segment().client(number).word;
    const ClientWord before(shared.load());
    if (before.life() == Life::live) continue;
    shared.store(ClientWord(Life::live, before.epoch()).bits() | uint64_t{1} << 40);
    const Finding finding = check_of(museum.cache());
    EXPECT_TRUE(finding.status == DC_ERROR_DAMAGED && finding.names(museum.offset_of(&shared))) << finding.text;
    museum.restore_all();
  }
}

// A kind that can be done to none of them would count as found.
TEST(DamageKinds, CanEachBeDoneToOneOfTheCaches) {
  std::mt19937_64 random(1);
  std::set<std::string> left;
  for (const DamageKind &kind : kDamageKinds) left.insert(kind.name);
  for (const Exhibition &exhibition : kExhibitions) {
    Museum museum(exhibition);
    for (const DamageKind &kind : kDamageKinds) {
      for (int round = 0; round < 50 && left.contains(kind.name); ++round) {
        if (kind.apply(museum.segment(), {static_cast<uint32_t>(random()), random()})) left.erase(kind.name);
      }
      museum.restore_all();
    }
  }
  EXPECT_TRUE(left.empty()) << left.size() << " kinds, the first '" << *left.begin() << "'";
}

// Many at once.
TEST_P(Kinds, OfDamageTogetherHurtNoCheck) {
  std::mt19937_64 random(1);
  Museum museum(GetParam());
  for (int round = 0; round < 300; ++round) {
    for (int i = 0; i < 8; ++i) {
      const DamageKind &kind = kDamageKinds[random() % kDamageKinds.size()];
      kind.apply(museum.segment(), {static_cast<uint32_t>(random()), random()});
    }
    const Finding finding = check_of(museum.cache());
    const dc_cache_report &r = finding.report;
    EXPECT_EQ(r.violations, r.damaged_header + r.damaged_control + r.damaged_clients + r.damaged_entries +
                                r.damaged_steps + r.damaged_extents + r.damaged_records + r.damaged_keys);
    museum.restore_all();
  }
}

}  // namespace
}  // namespace ddpcache::test
